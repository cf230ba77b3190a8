"""The commands that are recorded: every field and action of the language, and every message."""

from . import raw

MATCHES = [
    "", "in_port=3,reg0=5", "in_port=LOCAL", "metadata=5/0xff,tun_id=7", "metadata=0x123456789abcdef0", "tun_id=0x10/0xf0",
    "reg0=1,reg1=2,reg2=3/0xf,reg7=0xffffffff", "reg8=9,reg15=10", "xreg1=0x100000002", "xxreg2=0x1234/0xffff",
    "dl_vlan=7", "vlan_tci=0x1000/0x1000,ip", "vlan_tci=0", "vlan_tci=0x1123/0x1fff", "dl_vlan=7,dl_vlan_pcp=3,tcp,nw_dst=10.0.0.0/8",
    "dl_vlan_pcp=2", "vlan_vid=0x1005/0x100f",
    "dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", "dl_type=0x88cc,dl_dst=01:80:c2:00:00:0e,pkt_mark=3",
    "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.0/24,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:00/ff:00:00:00:00:00", "rarp,arp_op=3",
    "ip,nw_src=10.1.2.0/255.255.254.255,nw_ttl=5", "ip,nw_tos=8,nw_ecn=1,nw_proto=47", "ip,ip_dscp=10", "ipv6,ipv6_src=fe80::/64,ipv6_label=0x12345",
    "ipv6,ipv6_dst=2001:db8::1,ipv6_label=0x100/0xf00,nw_ttl=255", "ip,nw_frag=first", "ip,nw_frag=not_later", "ipv6,nw_frag=yes", "ip,nw_frag=no",
    "tcp,tp_dst=80,tcp_flags=+syn-ack", "tcp,tcp_flags=0x12", "udp,tp_src=0x50/0xfff0", "tcp6,ipv6_dst=2001:db8::1,tp_src=1000", "sctp,tp_dst=7", "udp6,tp_dst=53",
    "sctp6,tp_src=9", "icmp,icmp_type=8,icmp_code=0", "icmp6,icmp_type=128", "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01",
    "icmp6,icmp_type=136,icmp_code=0,nd_target=fe80::/10,nd_tll=02:00:00:00:00:02", "icmp6,icmp_type=136,icmp_code=0,nd_options_type=2,nd_reserved=1",
    "ct_state=+new+trk,tcp,ct_mark=1/3", "ct_state=+est-inv+trk,udp6,ct_label=5", "ct_state=-trk", "ct_zone=7,ct_label=0x1/0xff,ct_mark=9",
    "ct_state=+trk+est,ip,ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.0/8,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=0x10/0xfff0",
    "ct_state=+trk+est,ipv6,ct_ipv6_src=fe80::1,ct_ipv6_dst=2001:db8::/32", "conj_id=8,ip", "recirc_id=0", "dp_hash=1/0xf", "actset_output=2",
    "tun_src=10.0.0.1,tun_dst=10.0.0.0/24,tun_flags=+oam", "tun_ipv6_src=fe80::1,tun_ipv6_dst=2001:db8::/32", "tun_gbp_id=5,tun_gbp_flags=0x8",
    "priority=7,cookie=0x1234,idle_timeout=10,hard_timeout=20,importance=3,ip", "send_flow_rem,reset_counts,table=5,priority=65535,udp",
    "no_packet_counts,no_byte_counts,table=253,priority=0", "table=9,check_overlap,priority=3,tcp",
]

# Behind a match that makes all fields there, where one does not have to be another.
ACTIONS = [
    ("", "drop"), ("", "output:1,2,IN_PORT,LOCAL,NORMAL,FLOOD,ALL,TABLE"), ("", "output(port=1,max_len=100)"), ("", "output:reg0[0..15]"),
    ("", "output:NXM_NX_REG1[]"), ("", "output:xreg0[0..31]"), ("", "CONTROLLER"), ("", "controller(max_len=100)"), ("", "controller(reason=no_match,id=5)"),
    ("", "controller(userdata=00.01.02.03.04,pause,meter_id=1)"), ("", "controller(userdata=aa,id=3,max_len=64,reason=invalid_ttl)"), ("", "controller(pause)"),
    ("", "group:1"), ("", "meter:1,output:2"), ("", "set_field:5->reg0"), ("", "load:5->NXM_NX_REG0[4..7]"), ("", "set_field:0x5/0xf0f->reg1"),
    ("", "set_field:1->xreg0,set_field:0x12345678->xxreg1,set_field:1/1->xxreg2"), ("", "set_field:3->metadata,set_field:1/3->metadata"),
    ("", "set_field:02:00:00:00:00:09->eth_dst,set_field:02:00:00:00:00:00/ff:00:00:00:00:00->eth_src"), ("", "set_field:5->tun_id,set_field:9->pkt_mark"),
    ("", "set_field:10.0.0.1->tun_src,set_field:10.0.0.2->tun_dst,set_field:oam->tun_flags"), ("", "set_field:fe80::1->tun_ipv6_dst,set_field:7->tun_gbp_id"),
    ("", "set_field:7->in_port,output:1"), ("ip", "set_field:10.0.0.1->ip_src,set_field:10.0.0.0/24->ip_dst,mod_nw_tos:8,mod_nw_ecn:2,mod_nw_ttl:9,dec_ttl"),
    ("ip", "set_field:5->ip_dscp,set_field:7->nw_ttl,dec_ttl(1,2,3)"), ("ipv6", "set_field:fe80::1->ipv6_src,set_field:0x5->ipv6_label,dec_ttl"),
    ("tcp", "set_field:80->tcp_dst,mod_tp_src:81"), ("udp", "set_field:80->udp_dst"), ("sctp", "set_field:80->sctp_src"), ("icmp", "set_field:0->icmp_type,set_field:1->icmp_code"),
    ("icmp6,icmp_type=135,icmp_code=0", "set_field:fe80::2->nd_target,set_field:02:00:00:00:00:01->nd_sll,set_field:2->nd_options_type"),
    ("arp", "set_field:2->arp_op,set_field:10.0.0.3->arp_spa,set_field:02:00:00:00:00:01->arp_sha,move:arp_spa[]->arp_tpa[]"),
    ("", "push_vlan:0x8100,set_field:4097->vlan_vid,set_field:3->vlan_pcp"), ("dl_vlan=5", "pop_vlan,push_vlan:0x88a8"), ("", "mod_vlan_vid:7,mod_vlan_pcp:2"), ("dl_vlan=9", "strip_vlan"),
    ("", "move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]"), ("", "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],move:in_port[]->reg2[0..15],move:OXM_OF_IN_PORT[]->reg3[]"),
    ("", "move:NXM_NX_CT_MARK[]->NXM_NX_REG0[],move:metadata[0..15]->reg1[0..15]"), ("tcp", "move:tcp_flags[]->reg0[0..11]"),
    ("", "push:NXM_NX_REG0[],pop:NXM_NX_REG1[0..31],push:xreg3[5..9],pop:metadata[1..5]"), ("", "resubmit(,5),resubmit(3,),resubmit:4,resubmit(1,6)"), ("ct_state=+trk+est,ip", "resubmit(,7,ct)"),
    ("", "multipath(symmetric_l4,7,modulo_n,16,0,NXM_NX_REG0[0..7])"), ("", "multipath(eth_src,50,hrw,12,5,reg1[])"), ("", "bundle(eth_src,0,hrw,ofport,members:1,2,65535)"),
    ("", "bundle_load(nw_src,5,active_backup,ofport,reg0[0..15],members:1,2,3,4,5)"), ("", "bundle(symmetric_l3l4+udp,9,active_backup,ofport,members:)"),
    ("", "learn(table=3,hard_timeout=60,idle_timeout=5,priority=10,cookie=0x55,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])"),
    ("", "learn(table=4,limit=10,result_dst=reg0[3],fin_idle_timeout=1,fin_hard_timeout=2,send_flow_rem,delete_learned,eth_type=0x800,load:5->reg1[0..7],reg2[0..15]=0x1234,load:NXM_NX_REG0[]->NXM_NX_REG2[])"),
    ("tcp", "learn(table=2,delete_learned,eth_type=0x800,nw_proto=6,ip_src=ip_dst,tcp_dst=80,reg0=0x123,load:reg3[]->reg4[]),fin_timeout(idle_timeout=3,hard_timeout=4)"),
    ("", "conjunction(7,1/2)"), ("", "conjunction(7,2/2),conjunction(8,1/3),note:00.01"), ("", "clone(output:1,clone(set_field:1->reg0,output:2)),output:3"),
    ("", "note:01.02.03.04.05.06.07"), ("", "note:11"), ("", "exit"), ("", "sample(probability=100)"), ("", "sample(probability=100,collector_set_id=1,obs_domain_id=2,obs_point_id=3,sampling_port=1)"),
    ("", "sample(probability=7,collector_set_id=1,obs_domain_id=2,obs_point_id=3,sampling_port=2,egress)"), ("", "check_pkt_larger(100)->reg0[5]"),
    ("ip", "ct(table=1)"), ("ip", "ct(commit)"), ("ip", "ct(commit,force,zone=5,exec(set_field:1->ct_mark,set_field:0x2/0xff->ct_label,move:reg0[]->ct_mark[]))"), ("ip", "ct(zone=reg0[0..15],table=3,nat)"),
    ("ip", "ct(commit,nat(src=10.0.0.1-10.0.0.5:1000-2000,random))"), ("ip", "ct(commit,nat(dst=10.0.0.1:80))"), ("ipv6", "ct(commit,nat(src=fe80::1-fe80::9,hash,persistent))"), ("ip", "ct(commit,nat(src))"),
    ("ipv6", "ct(commit,nat(dst=[fe80::1]:80))"), ("tcp", "ct(commit,alg=ftp),ct_clear"), ("udp", "ct(commit,alg=tftp)"), ("", "ct_clear"), ("ip", "ct(commit,nat(src=10.0.0.1:1000-2000,hash))"),
    ("", "goto_table:9"), ("", "write_metadata:0x5/0xff,goto_table:8"), ("", "write_metadata:7"), ("", "clear_actions"), ("", "clear_actions,write_actions(output:1,set_field:5->reg0),goto_table:3"),
    ("", "meter:2,output:1,clear_actions,write_actions(group:2),write_metadata:1,goto_table:7"), ("", "write_actions(output:4)"),
]

# Loads of whole fields: Open vSwitch remembers that they came as loads, this switch does not.
LOADS = ["table=10,actions=load:0x1005->NXM_OF_VLAN_TCI[],load:5->NXM_NX_REG0[],load:7->OXM_OF_METADATA[]", "table=10,arp,actions=load:2->NXM_OF_ARP_OP[]"]

GROUPS = [
    "group_id=1,type=all,bucket=output:1,bucket=set_field:1->reg0,output:2", "group_id=2,type=select,bucket=weight:50,output:1,bucket=weight:0,output:2,bucket=actions=output:3",
    "group_id=3,type=indirect,bucket=output:1", "group_id=4,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2,bucket=watch_group:1,output:3", "group_id=5,type=all",
    "group_id=6,type=select,selection_method=dp_hash,selection_method_param=5,bucket=weight:1,output:1",
    "group_id=7,type=select,selection_method=hash,fields(ip_src=255.255.255.0,ip_dst),bucket=bucket_id:7,weight:1,output:1",
    "group_id=8,type=select,selection_method=hash,selection_method_param=9,fields=eth_src,bucket=weight:1,ct(commit,table=3,nat(dst=10.0.0.1:80),exec(set_field:1->ct_mark))",
    "group_id=9,type=all,bucket=mod_tp_dst:8080,output:1", "group_id=0xffffff00,type=select,bucket=weight:100,resubmit(,4)",
]

METERS = [
    "meter=1,kbps,band=type=drop,rate=1000", "meter=2,pktps,burst,stats,bands=type=drop,rate=10,burst_size=20", "meter=3,kbps,band=type=dscp_remark,rate=10,prec_level=1",
    "meter=4,pktps,band=type=dscp_remark,rate=10,prec_level=2,type=drop,rate=20",
]

ETHERNET = "ffffffffffff020000000001"
ARP = ETHERNET + "08060001080006040001" + "0200000000010a000001" + "0000000000000a000002" + "00" * 18
IPV4 = ETHERNET + "080045000014000000004006" + "66e3" + "0a0000010a000002" + "00" * 26


def _flows():
    matches = [f"table=1,{match},actions=drop" if "table" not in match else f"{match},actions=drop" for match in MATCHES]
    actions = [f"table=2,priority={number},{match},actions={actions}".replace(",,", ",") for number, (match, actions) in enumerate(ACTIONS)]
    return [line.replace(",,", ",") for line in matches], actions


def _controllers():
    yield {"ofctl": ["monitor", "65534", "-P", "nxt_packet_in2", "resume"], "background": True, "ready": (21, 1), "until": (4, 4), "during": [
        ("ofctl", "packet-out", "in_port=controller,packet=" + ARP + ",actions=controller(reason=action)"),
        ("ofctl", "packet-out", "in_port=1,packet=" + IPV4 + ",actions=controller"),
        ("ofctl", "add-flow", "cookie=0x77,priority=100,in_port=1,actions=set_field:5->reg0,set_field:0x123/0xfff->metadata,"
         "controller(userdata=00.01.02.03.04.05,pause),output:2"),
        ("appctl", "netdev-dummy/receive", "p1", IPV4),
        ("ofctl", "add-flow", "table=0,priority=99,in_port=2,ip,actions=push:reg0[],ct(table=3,zone=7)"),
        ("ofctl", "add-flow", "table=3,actions=controller(max_len=20)"), ("appctl", "netdev-dummy/receive", "p2", IPV4)]}
    yield {"ofctl": ["monitor", "65534", "-P", "standard"], "background": True, "ready": (21, 1), "until": (10, 2), "during": [
        ("ofctl", "packet-out", "in_port=controller,packet=" + ARP + ",actions=controller"), ("appctl", "netdev-dummy/receive", "p2", IPV4)]}


def _monitors():
    yield {"ofctl": ["monitor", "watch:"], "background": True, "ready": (21, 1), "until": (19, 4), "during": [
        ("ofctl", "add-flow", "table=7,cookie=5,priority=3,ip,actions=output:1"), ("ofctl", "mod-flows", "table=7,ip,actions=output:2"),
        ("ofctl", "del-flows", "table=7")]}
    yield {"ofctl": ["monitor", "watch:!initial,table=7,out_port=2"], "background": True, "ready": (21, 1), "until": (19, 1), "during": [
        ("ofctl", "add-flow", "table=7,priority=4,tcp,actions=output:2")]}


def _asynchronous():
    yield {"ofctl": ["monitor", "100"], "background": True, "ready": (21, 1), "until": (12, 3), "during": [
        ("ofctl", "mod-port", "1", "down"), ("ofctl", "mod-port", "1", "up"),
        ("ofctl", "add-flow", "table=6,priority=3,cookie=9,send_flow_rem,tcp,actions=drop"), ("ofctl", "del-flows", "table=6"),
        ("vsctl", "add-port", "br0", "p9", "--", "set", "interface", "p9", "type=dummy", "ofport_request=9"), ("vsctl", "del-port", "br0", "p9")]}


def _pipeline():
    """Groups, meters, flows and bundles, with what dumps say of them."""
    matches, actions = _flows()
    yield "meters", [{"ofctl": ["add-meter", meter], "fails": True} for meter in METERS] + [
        {"ofctl": ["mod-meter", METERS[0].replace("1000", "500")]}, {"ofctl": ["dump-meters"]}, {"ofctl": ["dump-meter", "meter=2"]}, {"ofctl": ["meter-stats"]},
        {"ofctl": ["meter-stats", "meter=1"]}, {"ofctl": ["meter-features"]}, {"ofctl": ["del-meter", "meter=3"]}]
    yield "groups", [{"ofctl": ["add-groups", "-"], "lines": GROUPS}] + [
        {"ofctl": ["mod-group", "group_id=1,type=all,bucket=output:3"]}, {"ofctl": ["--may-create", "mod-group", "group_id=10,type=all,bucket=output:3"]},
        {"ofctl": ["insert-buckets", "group_id=2,command_bucket_id=last,bucket=bucket_id:9,weight:3,output:1"], "fails": True},
        {"ofctl": ["insert-buckets", "group_id=2,command_bucket_id=first,bucket=bucket_id:8,weight:3,output:2"], "fails": True},
        {"ofctl": ["remove-buckets", "group_id=2,command_bucket_id=8"], "fails": True}, {"ofctl": ["remove-buckets", "group_id=2,command_bucket_id=last"], "fails": True},
        {"ofctl": ["dump-groups"]}, {"ofctl": ["dump-groups", "2"]}, {"ofctl": ["dump-group-stats"]}, {"ofctl": ["dump-group-stats", "group_id=2"]}, {"ofctl": ["dump-group-features"]},
        {"ofctl": ["del-groups", "group_id=10"]}]
    yield "matches", [{"ofctl": ["add-flows", "-"], "lines": matches, "fails": True}, {"ofctl": ["dump-flows", "table=1"]}]
    yield "actions", [{"ofctl": ["add-flows", "-"], "lines": actions, "fails": True}, {"ofctl": ["dump-flows", "table=2"]}]
    yield "flows", [
        {"ofctl": ["mod-flows", "table=2,ip,actions=output:3"]}, {"ofctl": ["--strict", "mod-flows", "table=2,priority=5,cookie=5/0xff,actions=output:3"]},
        {"ofctl": ["del-flows", "table=1,tcp,out_port=2,out_group=5"]}, {"ofctl": ["--strict", "del-flows", "table=1,priority=32768,udp"], "fails": True},
        {"ofctl": ["del-flows", "cookie=0x1234/-1"]}, {"ofctl": ["dump-flows", "table=1,ip,cookie=5/0xff"]}, {"ofctl": ["dump-aggregate"]}, {"ofctl": ["dump-aggregate", "table=1,tcp"]},
        {"ofctl": ["replace-flows", "-"], "lines": ["table=2,priority=1,ip,actions=output:1", "table=3,priority=9,send_flow_rem,udp,actions=drop"]},
        {"ofctl": ["diff-flows", "-"], "lines": ["table=2,priority=1,ip,actions=output:1"], "fails": True}]
    yield "bundles", [
        {"ofctl": ["--bundle", "add-flows", "-"], "lines": ["add table=4,priority=1,tcp,actions=output:1", "modify table=4,tcp,actions=output:2", "delete_strict table=4,priority=1,tcp"]},
        {"ofctl": ["bundle", "-"], "lines": ["group add group_id=20,type=all,bucket=output:1", "flow add table=4,priority=1,tcp,actions=group:20", "flow delete table=4", "group delete group_id=20"]},
        {"ofctl": ["bundle", "-"], "lines": ["flow add table=4,priority=1,tcp,actions=group:77"], "fails": True}]


def files(version):
    """Names of golden files, and the steps that fill each."""
    yield "switch", [
        {"ofctl": ["show"]}, {"ofctl": ["dump-ports"]}, {"ofctl": ["dump-ports", "2"]}, {"ofctl": ["dump-ports-desc"]}, {"ofctl": ["dump-ports-desc", "2"]}, {"ofctl": ["dump-tables"]}, {"ofctl": ["dump-desc"]},
        {"ofctl": ["get-frags"]}, {"ofctl": ["set-frags", "drop"]}, {"ofctl": ["set-frags", "normal"]}, {"ofctl": ["dump-table-features"]},
        {"ofctl": ["mod-port", "1", "no-flood"], "fails": True}, {"ofctl": ["mod-port", "1", "down"]}, {"ofctl": ["mod-port", "p1", "up"]}, {"ofctl": ["mod-table", "1", "controller"], "fails": True},
        {"ofctl": ["dump-table-desc"], "fails": True}, {"ofctl": ["dump-ipfix-bridge"], "fails": True}, {"ofctl": ["queue-stats"], "fails": True}, {"ofctl": ["ping"]}, {"ofctl": ["probe"]}]
    yield from _pipeline()
    yield "options", [
        {"ofctl": ["add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0,{class=0x103,type=0x1,len=16}->tun_metadata1"]}, {"ofctl": ["dump-tlv-map"]},
        {"ofctl": ["add-flows", "-"], "lines": ["table=8,priority=1,tun_metadata0=5,actions=drop", "table=8,priority=2,tun_metadata1=0x1234/0xffff,actions=drop",
                                               "table=8,priority=3,actions=set_field:7->tun_metadata0,move:reg0[]->tun_metadata0[0..31],delete_field:tun_metadata1"]},
        {"ofctl": ["dump-flows", "table=8"]}, {"ofctl": ["add-tlv-map", "{class=0x104,type=0x1,len=124}->tun_metadata2"]}, {"ofctl": ["del-tlv-map", "{class=0x104,type=0x1,len=124}->tun_metadata2"]},
        {"ofctl": ["del-tlv-map"], "fails": True}]
    yield "packets", [{"ofctl": ["packet-out", f"in_port={port},packet={ARP},actions={actions}"]} for port, actions in (("1", "output:2"), ("LOCAL", "resubmit(,3)"), ("controller", "NORMAL"))]
    yield "packet-ins", list(_controllers())
    yield "monitors", list(_monitors())
    yield "status", list(_asynchronous())
    yield "connections", [{"ofctl": ["ct-flush", *words], "fails": True} for words in (
        [], ["zone=5"], ["ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80"], ["zone=3", "ct_ipv6_src=fe80::1,ct_nw_proto=17", "ct_ipv6_dst=fe80::2,ct_tp_src=9"])] + [
        {"ofctl": ["ct-flush-zone", "7"]}, {"ofctl": ["probe"]}]
    yield "errors", [{"raw": list(raw.messages(version))}]
    yield "loads", [{"ofctl": ["add-flows", "-"], "lines": LOADS}]
