# What a contributor runs, by short names (https://just.systems). Each is a plain script or command,
# which works without just, too.

# All names.
default:
    @just --list

# Format, clippy and the unit tests of what changed: a minute.
check *ARGS:
    ./tools/check {{ARGS}}

# Tests of one crate: just t vswitch-flow, just t vswitch-dataplane 'test(/^cache::/)'.
t CRATE FILTER='all()':
    cargo nextest run --locked -p {{CRATE}} -E '{{FILTER}}'

# Every test there is; needs root.
test *ARGS:
    ./tools/test {{ARGS}}

# A Node of network namespaces, with traffic; needs root.
demo *ARGS:
    ./tools/demo {{ARGS}}

# One case of the benchmarks: just bench pod-1000.
bench CASE *ARGS:
    ./perf/run --case {{CASE}} {{ARGS}}

# One fuzz target: just fuzz flow_text.
fuzz TARGET *ARGS:
    ./tools/fuzz {{TARGET}} {{ARGS}}
