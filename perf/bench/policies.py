"""115,000 policy flows: 5,000 conjunctive rules of 10 sources, 10 ports and 2 services each, every
rule at a priority of its own, as an agent writes them. Addresses, ports and services come from the
pools of a big cluster, so that rules share them."""

import random

RULES, SOURCES, PORTS, SERVICES = 5000, 10, 10, 2
PODS, PORT_POOL, SERVICE_POOL = 4000, 300, 1000


def pod(number):
    """The address of a Pod of the pool."""
    return f"10.{10 + number // 250 // 250}.{number // 250 % 250}.{1 + number % 250}"


def lines(rules=RULES):
    """The flows, one per line, for table 25."""
    chance = random.Random(25)
    for rule in range(1, rules + 1):
        priority = 60000 - rule
        head = f"table=25,priority={priority}"
        for source in chance.sample(range(PODS), SOURCES):
            yield f"{head},ip,nw_src={pod(source)} actions=conjunction({rule},1/3)"
        for port in chance.sample(range(PORT_POOL), PORTS):
            yield f"{head},tcp,tp_dst={1000 + port} actions=conjunction({rule},2/3)"
        for service in chance.sample(range(SERVICE_POOL), SERVICES):
            yield f"{head},reg7={1 + service:#x} actions=conjunction({rule},3/3)"
        yield f"{head},conj_id={rule},ip actions=set_field:{rule:#x}->reg6,output:2"


def write(path, rules=RULES):
    """Writes them to a file; returns their number."""
    count = 0
    with open(path, "w") as file:
        for line in lines(rules):
            file.write(line + "\n")
            count += 1
    return count
