//! What a mistake in counting would spoil: clauses of conjunctions as messages, and `arp_op`, which
//! has 16 bits in packets and 8 in keys.

use crate::bed::{BRIDGE, Bed, udp};
use vswitch_proto::v1;
use vswitch_proto::v1::action::Action as A;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::update::Update as U;

fn typed(priority: u32, matching: &str, actions: Vec<A>) -> U {
    let actions = actions.into_iter().map(|action| v1::Action { action: Some(action) }).collect();
    U::AddFlow(v1::Flow {
        priority: Some(priority),
        matching: Some(v1::flow::Matching::MatchText(matching.to_owned())),
        doing: Some(v1::flow::Doing::Actions(v1::Actions { actions })),
        ..Default::default()
    })
}

fn clause(id: u32, clause: u32, clauses: u32) -> A {
    A::Conjunction(v1::ConjunctionAction { id, clause, clauses })
}

/// Clauses count from 1 in messages as in text: what is added typed is the same as what is added as
/// text, matches, and comes back equal; 0 and one too many are refused.
#[test]
fn clauses_of_conjunctions_count_from_1_in_messages() {
    let mut bed = Bed::new(2);
    let output = A::Output(v1::OutputAction { port: 2, max_len: None });
    let told = bed.write(vec![
        typed(9, "ip,nw_src=10.0.0.1", vec![clause(7, 1, 2)]),
        typed(9, "udp,tp_dst=53", vec![clause(7, 2, 2)]),
        typed(9, "udp,tp_src=1", vec![clause(64, 64, 64)]),
        typed(8, "ip,conj_id=7", vec![output]),
    ]);
    assert!(told.as_ref().is_ok_and(|told| told.applied), "{told:?}");
    let shown = bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    for text in [
        "nw_src=10.0.0.1 actions=conjunction(7,1/2)",
        "tp_dst=53 actions=conjunction(7,2/2)",
        "tp_src=1 actions=conjunction(64,64/64)",
    ] {
        assert!(shown.contains(text), "{text} in\n{shown}");
    }
    assert_eq!(bed.fate(&udp(5)), (vec!["p2".to_owned()], "-".to_owned()));
    let request =
        v1::ListFlowsRequest { bridge: BRIDGE.to_owned(), form: v1::Form::Typed.into(), ..Default::default() };
    let mut service = FlowServiceClient::new(bed.channel());
    let listed = bed.wait(async {
        let mut stream = service.list_flows(request).await.expect("flows").into_inner();
        let mut flows = Vec::new();
        while let Some(message) = stream.message().await.expect("flows") {
            flows.extend(message.flows);
        }
        flows
    });
    let mut clauses = Vec::new();
    for entry in listed {
        let doing = entry.flow.and_then(|flow| flow.doing);
        let Some(v1::flow::Doing::Actions(list)) = doing else { panic!("actions as messages: {doing:?}") };
        clauses.extend(list.actions.into_iter().filter_map(|action| match action.action {
            Some(A::Conjunction(v1::ConjunctionAction { id, clause, clauses })) => Some((id, clause, clauses)),
            _ => None,
        }));
    }
    clauses.sort_unstable();
    assert_eq!(clauses, [(7, 1, 2), (7, 2, 2), (64, 64, 64)]);
    for (bad, reason) in [
        (clause(1, 0, 2), "clause 0 of 2"),
        (clause(1, 3, 2), "clause 3 of 2"),
        (clause(1, 1, 1), "a conjunction of 1 clauses"),
        (clause(1, 1, 65), "a conjunction of 65 clauses"),
    ] {
        let told = bed.write(vec![typed(9, "ip", vec![bad.clone()])]).expect("an answer");
        let status = &told.statuses[0];
        let named = (status.code.as_str(), status.field.as_str()) == ("NXBAC_BAD_CONJUNCTION", "conjunction");
        assert!(!told.applied && named && status.reason.starts_with(reason), "{bad:?}: {told:?}");
    }
    bed.settle();
}

/// Open vSwitch keeps 8 bits of ARP's operation; `NXM_OF_ARP_OP[]` is 16 nevertheless: the upper
/// ones read as 0, and what is moved there is lost. A constant that has some is refused.
#[test]
fn arp_op_has_16_bits_for_actions() {
    let mut bed = Bed::new(2);
    let arp = |op: u8| {
        let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, op];
        frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        frame.resize(60, 0);
        frame
    };
    let moves = [
        "arp,actions=load:0xfe02->NXM_NX_REG0[0..15],move:NXM_NX_REG0[0..15]->NXM_OF_ARP_OP[],move:NXM_OF_ARP_OP[]->NXM_NX_REG1[0..15],resubmit(,1)",
        "table=1,arp,arp_op=2,reg1=2,actions=output:2",
    ];
    bed.load(&moves);
    let shown = bed.vsctl("dump-flows", &["--no-stats", "table=0"], None).expect("flows");
    assert_eq!(
        shown,
        " arp actions=set_field:0xfe02/0xffff->reg0,move:NXM_NX_REG0[0..15]->NXM_OF_ARP_OP[],move:NXM_OF_ARP_OP[]->NXM_NX_REG1[0..15],resubmit(,1)"
    );
    assert_eq!(bed.send("p1", &arp(1)), [("p2".to_owned(), arp(2))]);
    let parts = "arp,actions=move:NXM_OF_ARP_OP[0..7]->NXM_NX_REG0[0..7],push:NXM_OF_ARP_OP[],pop:NXM_NX_REG1[0..15],load:1->NXM_OF_ARP_OP[],\
                 learn(table=1,dl_type=0x806,NXM_OF_ARP_OP[],load:0x2->NXM_OF_ARP_OP[],output:NXM_NX_REG2[])";
    bed.load(&[parts]);
    let shown = bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    let wanted = parts
        .replace("arp,", " arp ")
        .replace("load:1->NXM_OF_ARP_OP[]", "set_field:1->arp_op")
        .replace("dl_type", "eth_type");
    assert_eq!(shown, wanted);
    bed.send("p1", &arp(1));
    let learned = bed.vsctl("dump-flows", &["--no-stats", "table=1"], None).expect("flows");
    assert_eq!(learned, " table=1, arp,arp_op=1 actions=set_field:2->arp_op,output:0");
    bed.load(&[]);
    let told = bed.refused(&["arp,actions=load:0x102->NXM_OF_ARP_OP[]"]);
    assert!(told.contains("OFPBAC_BAD_SET_ARGUMENT"), "{told}");
    let told = bed.refused(&["arp,actions=load:0x10000->NXM_OF_ARP_OP[]"]);
    assert!(told.contains("does not fit into 16 bits"), "{told}");
    // The same as messages.
    let sub = |field: &str, start, length| Some(v1::Subfield { field: field.to_owned(), start, length });
    let all = A::Move(v1::MoveAction { from: sub("arp_op", 0, 16), to: sub("reg0", 0, 16) });
    let told = bed.write(vec![typed(9, "arp", vec![all])]).expect("an answer");
    assert!(told.applied, "{told:?}");
    let shown = bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    assert_eq!(shown, " priority=9,arp actions=move:NXM_OF_ARP_OP[]->NXM_NX_REG0[0..15]");
    bed.settle();
}
