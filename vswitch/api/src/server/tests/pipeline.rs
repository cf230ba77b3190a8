//! Tables, flows, groups, meters and packets through a real socket. Behind it are real pipelines
//! that no packet passes.

use super::{Running, internal, soon};
use std::sync::atomic::Ordering::Relaxed;
use tonic::{Code, Status};
use vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX;
use vswitch_dataplane::pipeline::PacketIn;
use vswitch_flow::action::Reason;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::v1;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::group_service_client::GroupServiceClient;
use vswitch_proto::v1::meter_service_client::MeterServiceClient;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;
use vswitch_proto::v1::table_service_client::TableServiceClient;
use vswitch_proto::v1::trace_service_client::TraceServiceClient;
use vswitch_proto::v1::update::Update as Kind;
use vswitch_proto::v1::{Form, LineKind, UpdateOutcome};

fn line(tag: u32, kind: LineKind, line: &str) -> v1::Update {
    let update = Some(Kind::Line(v1::LineUpdate { kind: kind.into(), line: line.to_owned() }));
    v1::Update { tag, update }
}

fn flow(tag: u32, text: &str) -> v1::Update {
    line(tag, LineKind::AddFlow, text)
}

fn outcomes(response: &v1::WriteResponse) -> Vec<(u32, UpdateOutcome)> {
    response.statuses.iter().map(|status| (status.tag, status.outcome())).collect()
}

impl Running {
    async fn with_bridge() -> Self {
        let running = Self::start().await;
        running.add_bridge("br0").await.expect("a new bridge");
        for name in ["p1", "p2"] {
            running.add_port("br0", internal(name)).await.expect("a new port");
        }
        running
    }

    async fn write(&self, mut messages: Vec<v1::WriteRequest>) -> Result<v1::WriteResponse, Status> {
        messages.last_mut().into_iter().for_each(|last| last.commit = true);
        self.send(messages).await
    }

    async fn send(&self, messages: Vec<v1::WriteRequest>) -> Result<v1::WriteResponse, Status> {
        let mut client = PipelineServiceClient::new(self.channel.clone());
        Ok(soon("a write", client.write(tokio_stream::iter(messages))).await?.into_inner())
    }

    async fn update(&self, updates: Vec<v1::Update>) -> v1::WriteResponse {
        self.write(vec![v1::WriteRequest { bridge: "br0".to_owned(), updates, commit: true }]).await.expect("an answer")
    }

    async fn flows(&self, request: v1::ListFlowsRequest) -> Result<Vec<v1::FlowEntry>, Status> {
        let request = v1::ListFlowsRequest { bridge: "br0".to_owned(), ..request };
        let mut parts = FlowServiceClient::new(self.channel.clone()).list_flows(request).await?.into_inner();
        let mut flows = Vec::new();
        while let Some(part) = parts.message().await? {
            flows.extend(part.flows);
        }
        Ok(flows)
    }

    async fn lines(&self, filter: &str) -> Vec<String> {
        let filter = Some(v1::list_flows_request::Filter::Text(filter.to_owned()));
        let request = v1::ListFlowsRequest { filter, no_statistics: true, ..Default::default() };
        self.flows(request).await.expect("flows").into_iter().map(|flow| flow.line).collect()
    }
}

#[tokio::test]
async fn a_transaction_is_applied_as_a_whole_in_many_messages() {
    let running = Running::with_bridge().await;
    let message = |bridge: &str, updates| v1::WriteRequest { bridge: bridge.to_owned(), updates, commit: false };
    let typed = v1::Flow {
        table: 1,
        priority: Some(7),
        matching: Some(v1::flow::Matching::MatchText("udp".to_owned())),
        doing: Some(v1::flow::Doing::ActionsText("output:p2".to_owned())),
        ..Default::default()
    };
    let response = running
        .write(vec![
            message("br0", Vec::new()),
            message(
                "",
                vec![flow(3, "table=0,priority=5,in_port=p1,actions=group:1"), flow(4, "actions=meter:1,goto_table:1")],
            ),
            message("br0", vec![line(5, LineKind::AddGroup, "group_id=1,type=all,bucket=actions=output:2")]),
            message(
                "",
                vec![
                    line(6, LineKind::AddMeter, "meter=1,kbps,band=type=drop,rate=5"),
                    v1::Update { tag: 7, update: Some(Kind::AddFlow(typed)) },
                ],
            ),
        ])
        .await
        .expect("an answer");
    assert!(response.applied, "{response:?}");
    let want: Vec<_> = (3..=7).map(|tag| (tag, UpdateOutcome::Applied)).collect();
    assert_eq!((outcomes(&response), response.updates, response.affected), (want, 5, 5));
    assert!(response.statuses.iter().all(|status| status.affected == 1 && status.warnings.is_empty()), "{response:?}");
    let want = [
        "priority=5,in_port=1 actions=group:1",
        "actions=meter:1,goto_table:1",
        "table=1, priority=7,udp actions=output:2",
    ];
    assert_eq!(running.lines("").await, want);
    running.stop().await;
}

#[tokio::test]
async fn one_bad_line_among_many_changes_nothing_and_is_told_with_its_place() {
    let running = Running::with_bridge().await;
    assert!(running.update(vec![flow(1, "priority=9,actions=drop")]).await.applied);
    let mut updates: Vec<_> = (1..=5000).map(|i| flow(i, &format!("priority={i},actions=drop"))).collect();
    updates[4321] = flow(4322, "priority=4322,tcp,nw_srk=10.0.0.1,actions=drop");
    let response = running.update(updates).await;
    assert!(!response.applied);
    assert_eq!((response.updates, response.refused, response.affected), (5000, 1, 0));
    let bad: Vec<_> = response.statuses.iter().filter(|status| !status.reason.is_empty()).collect();
    assert_eq!(bad.len(), 1);
    let status = bad[0];
    assert_eq!((status.tag, status.outcome(), status.column), (4322, UpdateOutcome::Invalid, 19), "{status:?}");
    assert!(status.reason.contains("nw_srk") && status.hint.contains("nw_src"), "{status:?}");
    assert_eq!(outcomes(&response)[0], (1, UpdateOutcome::NotApplied));
    assert_eq!(running.lines("").await, ["priority=9 actions=drop"]);
    // What the state refuses is told with its name.
    let response = running.update(vec![flow(1, "priority=1,actions=drop"), flow(2, "actions=group:77")]).await;
    let statuses = outcomes(&response);
    assert_eq!(statuses, [(1, UpdateOutcome::NotApplied), (2, UpdateOutcome::Refused)], "{response:?}");
    assert_eq!(response.statuses[1].code, "OFPBAC_BAD_OUT_GROUP", "{response:?}");
    assert_eq!(running.lines("").await, ["priority=9 actions=drop"]);
    running.stop().await;
}

#[tokio::test]
async fn only_lines_of_files_say_what_they_ask_for() {
    let running = Running::with_bridge().await;
    let kept = ["priority=9 actions=drop"];
    assert!(running.update(vec![flow(1, "priority=9,actions=drop")]).await.applied);
    // A flow to add, on the command line or in the file of replace-flows, is no command.
    let response = running.update(vec![flow(0, "delete")]).await;
    assert_eq!(outcomes(&response), [(0, UpdateOutcome::Invalid)], "{response:?}");
    let replace = line(0, LineKind::ReplaceFlows, "");
    let response = running.update(vec![replace, flow(1, "delete priority=9"), flow(2, "actions=drop")]).await;
    assert!(!response.applied && response.statuses[1].outcome() == UpdateOutcome::Invalid, "{response:?}");
    let response = running.update(vec![line(0, LineKind::AddGroup, "delete")]).await;
    assert!(!response.applied, "{response:?}");
    assert_eq!(running.lines("").await, kept);
    let file = |tag, text: &str| line(tag, LineKind::FlowsFile, text);
    let updates =
        vec![file(1, "delete_strict priority=9"), file(2, "priority=3,actions=1"), file(3, "modify actions=2")];
    assert!(running.update(updates).await.applied);
    assert_eq!(running.lines("").await, ["priority=3 actions=output:2"]);
    let groups = |tag, text: &str| line(tag, LineKind::GroupsFile, text);
    let updates = vec![
        groups(1, "group_id=1,type=all,bucket=1"),
        groups(2, "insert_bucket group_id=1,command_bucket_id=last,bucket=bucket_id=9,2"),
        groups(3, "delete group_id=1"),
    ];
    assert!(running.update(updates).await.applied);
    running.stop().await;
}

#[tokio::test]
async fn what_is_odd_about_a_filter_is_told() {
    let running = Running::with_bridge().await;
    let updates = (0..1500).map(|priority| flow(0, &format!("priority={priority},actions=drop")));
    assert!(running.update(updates.collect()).await.applied);
    let text = "nw_dst=10.0.0.1".to_owned();
    let filter = Some(v1::list_flows_request::Filter::Text(text.clone()));
    let request = v1::ListFlowsRequest { bridge: "br0".to_owned(), filter, ..Default::default() };
    let mut client = FlowServiceClient::new(running.channel.clone());
    let mut parts = client.list_flows(request).await.expect("flows").into_inner();
    let (mut warnings, mut flows) = (Vec::new(), 0);
    while let Some(part) = parts.message().await.expect("no error") {
        flows += part.flows.len();
        warnings.extend(part.warnings);
    }
    assert_eq!(flows, 1500);
    assert!(warnings.len() == 1 && warnings[0].starts_with("nw_dst is ignored"), "{warnings:?}");
    let filter = Some(v1::aggregate_flows_request::Filter::Text(text.clone()));
    let request = v1::AggregateFlowsRequest { bridge: "br0".to_owned(), filter };
    assert_eq!(client.aggregate_flows(request).await.expect("sums").into_inner().warnings, warnings);
    let response = running.update(vec![line(0, LineKind::ReplaceFlows, &text)]).await;
    assert_eq!((response.statuses[0].warnings.clone(), response.warned), (warnings, 1));
    running.stop().await;
}

#[tokio::test]
async fn texts_of_a_transaction_are_bounded() {
    let running = Running::with_bridge().await;
    let response = running.update((0..3000).map(|tag| flow(tag, "nonsense")).collect()).await;
    // After a thousand wrong ones nobody looks at the others.
    assert_eq!((response.refused, response.statuses.len()), (1000, 3000));
    let invalid = response.statuses.iter().take_while(|status| status.outcome() == UpdateOutcome::Invalid);
    assert_eq!(invalid.count(), 1000);
    assert!(response.statuses[1000..].iter().all(|status| status.outcome() == UpdateOutcome::NotApplied));
    assert_eq!(response.statuses.iter().filter(|status| !status.reason.is_empty()).count(), 1000);
    let long = format!("{}=1,actions=drop", "x".repeat(1 << 20));
    let status = running.update(vec![flow(1, &long)]).await.statuses.remove(0);
    assert!(
        !status.reason.is_empty() && status.reason.len() + status.hint.len() + status.field.len() < 2048,
        "{status:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn calls_that_cannot_be_a_transaction_are_refused() {
    let running = Running::with_bridge().await;
    let message = |bridge: &str, updates| v1::WriteRequest { bridge: bridge.to_owned(), updates, commit: false };
    let cases = [
        (vec![], Code::InvalidArgument, "bridge: the first message names none; name a bridge"),
        (vec![message("", vec![])], Code::InvalidArgument, "bridge: the first message names none; name a bridge"),
        (vec![message("br9", vec![])], Code::NotFound, "bridge \"br9\" does not exist; look again"),
        (
            vec![message("br0", vec![flow(1, "actions=drop")]), message("br1", vec![])],
            Code::InvalidArgument,
            "bridge: \"br1\" is not the first message's \"br0\"; write to one bridge",
        ),
    ];
    for (messages, code, text) in cases {
        let status = running.write(messages).await.expect_err(text);
        assert_eq!((status.code(), status.message()), (code, text));
    }
    let early = vec![v1::WriteRequest { commit: true, ..message("br0", Vec::new()) }, message("br0", Vec::new())];
    let status = running.send(early).await.expect_err("after commit");
    assert_eq!(status.message(), "commit: a message came after it; set it in the last message");
    let status = running.send(vec![message("br0", vec![flow(1, "actions=drop")])]).await.expect_err("no commit");
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    // An update that says nothing is one bad update, not a bad call.
    let response = running.update(vec![v1::Update { tag: 1, update: None }]).await;
    assert_eq!(response.statuses[0].reason, "the update is empty");
    // More updates than a transaction may have: refused before they are looked at.
    let part = vec![v1::Update::default(); 1 << 18];
    let messages = vec![message("br0", part); TRANSACTION_UPDATES_MAX / (1 << 18) + 1];
    let status = running.write(messages).await.expect_err("too many");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(running.lines("").await, [] as [&str; 0]);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_changes_nothing() {
    let running = Running::with_bridge().await;
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let mut client = PipelineServiceClient::new(running.channel.clone());
    let call = tokio::spawn(async move { client.write(tokio_stream::wrappers::ReceiverStream::new(receiver)).await });
    let message = v1::WriteRequest { bridge: "br0".to_owned(), updates: vec![flow(1, "actions=drop")], commit: false };
    sender.send(message).await.expect("a call");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    call.abort(); // resets the stream; the sender is still there, so that it does not just end
    let _ = call.await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(running.lines("").await, [] as [&str; 0]);
    drop(sender);
    running.stop().await;
}

#[tokio::test]
async fn flows_are_listed_as_lines_as_text_and_typed() {
    let running = Running::with_bridge().await;
    let mut tables = TableServiceClient::new(running.channel.clone());
    let request = v1::AddTableRequest { bridge: "br0".to_owned(), name: "Output".to_owned(), number: Some(5) };
    assert_eq!(tables.add_table(request.clone()).await.expect("a table").into_inner().number, 5);
    let status =
        tables.add_table(v1::AddTableRequest { number: Some(254), ..request }).await.expect_err("no such table");
    assert_eq!(status.message(), "number: 254 is no table; use 0 to 253, or leave it out");
    let lines = [
        "table=Output,priority=3,tcp,nw_src=10.0.0.0/8,actions=p2",
        "table=0,cookie=7,priority=1,actions=resubmit(,Output)",
    ];
    assert!(running.update(lines.iter().map(|line| flow(0, line)).collect()).await.applied);

    let by_name = v1::ListFlowsRequest { names: true, no_statistics: true, ..Default::default() };
    let flows = running.flows(by_name).await.expect("flows");
    let got: Vec<_> = flows.iter().map(|flow| flow.line.as_str()).collect();
    assert_eq!(
        got,
        [
            "cookie=0x7, priority=1 actions=resubmit(,Output)",
            "table=Output, priority=3,tcp,nw_src=10.0.0.0/8 actions=output:p2"
        ]
    );
    let flows = running.flows(v1::ListFlowsRequest::default()).await.expect("flows");
    assert!(
        flows[0].line.starts_with("cookie=0x7, duration=2.500s, table=0, n_packets=0, n_bytes=0,"),
        "{}",
        flows[0].line
    );

    let text =
        running.flows(v1::ListFlowsRequest { form: Form::Text.into(), ..Default::default() }).await.expect("flows");
    let flow = text[1].flow.clone().expect("a flow");
    assert_eq!((flow.table, flow.table_name.as_str(), flow.priority), (5, "Output", Some(3)));
    assert_eq!(flow.matching, Some(v1::flow::Matching::MatchText("tcp,nw_src=10.0.0.0/8".to_owned())));
    assert_eq!(flow.doing, Some(v1::flow::Doing::ActionsText("output:2".to_owned())));
    let typed =
        running.flows(v1::ListFlowsRequest { form: Form::Typed.into(), ..Default::default() }).await.expect("flows");
    // What is listed typed can be written again, and is the same.
    let again: Vec<_> =
        typed.iter().map(|entry| v1::Update { tag: 0, update: entry.flow.clone().map(Kind::AddFlow) }).collect();
    let before = running.lines("").await;
    let replace = v1::Update { tag: 0, update: Some(Kind::ReplaceFlows(v1::FlowFilter::default())) };
    let response = running.update([vec![replace], again].concat()).await;
    assert!(response.applied, "{response:?}");
    assert_eq!(running.lines("").await, before);

    let delete = |name: &str| v1::DeleteTableRequest { bridge: "br0".to_owned(), name: name.to_owned() };
    assert_eq!(tables.delete_table(delete("Outptu")).await.expect_err("no such table").code(), Code::NotFound);
    assert_eq!(tables.delete_table(delete("Output")).await.expect("a table").into_inner().number, 5);
    let refused = running.update(vec![line(1, LineKind::AddFlow, "table=Output,actions=drop")]).await;
    assert!(refused.statuses[0].reason.contains("no table"), "{refused:?}");
    let named = v1::AddTableRequest { bridge: "br0".to_owned(), name: "Exit".to_owned(), number: Some(5) };
    tables.add_table(named).await.expect("a table");
    let listed = tables
        .list_tables(v1::ListTablesRequest { bridge: "br0".to_owned() })
        .await
        .expect("tables")
        .into_inner()
        .tables;
    let got: Vec<_> = listed.iter().map(|table| (table.number, table.name.as_str(), table.flows)).collect();
    assert_eq!(got, [(0, "", 1), (5, "Exit", 1)]);
    running.stop().await;
}

#[tokio::test]
async fn flows_are_filtered_summed_and_sorted() {
    let running = Running::with_bridge().await;
    let lines =
        ["priority=3,tcp,tp_dst=80", "priority=1,tcp,tp_dst=22", "priority=2,udp", "table=1,priority=9,cookie=0x15,ip"];
    assert!(running.update(lines.iter().map(|line| flow(0, &format!("{line},actions=drop"))).collect()).await.applied);
    assert_eq!(running.lines("table=0,tcp").await.len(), 2);
    assert_eq!(running.lines("cookie=0x5/0xf").await, ["cookie=0x15, table=1, priority=9,ip actions=drop"]);
    let sums = |filter| {
        let request = v1::AggregateFlowsRequest { bridge: "br0".to_owned(), filter };
        let mut client = FlowServiceClient::new(running.channel.clone());
        async move { client.aggregate_flows(request).await }
    };
    assert_eq!(sums(None).await.expect("sums").into_inner().flows, 4);
    let typed = v1::FlowFilter { table: Some(0), ..Default::default() };
    let filter = Some(v1::aggregate_flows_request::Filter::Typed(typed));
    assert_eq!(sums(filter).await.expect("sums").into_inner().flows, 3);
    let filter = Some(v1::aggregate_flows_request::Filter::Text("nonsense".to_owned()));
    let status = sums(filter).await.expect_err("not a filter");
    assert!(status.code() == Code::InvalidArgument && status.message().starts_with("column 1: "), "{status:?}");

    let sorted = |field: &str, descending| {
        let sort = vec![v1::SortKey { field: field.to_owned(), descending }];
        running.flows(v1::ListFlowsRequest { sort, form: Form::Text.into(), ..Default::default() })
    };
    let priorities = |flows: Result<Vec<v1::FlowEntry>, Status>| -> Vec<u32> {
        flows.expect("flows").into_iter().filter_map(|entry| entry.flow?.priority).collect()
    };
    assert_eq!(priorities(sorted("priority", true).await), [9, 3, 2, 1]);
    assert_eq!(priorities(sorted("priority", false).await), [1, 2, 3, 9]);
    // Flows without the field come last either way, in their order.
    assert_eq!(priorities(sorted("tcp_dst", false).await), [1, 3, 2, 9]);
    assert_eq!(priorities(sorted("tp_dst", true).await), [3, 1, 2, 9]);
    let status = sorted("colour", false).await.expect_err("no such field");
    assert_eq!(status.message(), "sort: \"colour\" is no field; use priority, or a field of ovs-fields(7)");
    running.stop().await;
}

#[tokio::test]
async fn groups_and_meters_are_listed_with_their_numbers() {
    let running = Running::with_bridge().await;
    let updates = vec![
        line(
            0,
            LineKind::AddGroup,
            "group_id=1,type=select,bucket=weight:50,actions=output:p1,bucket=actions=output:2",
        ),
        line(0, LineKind::AddGroup, "group_id=2,type=ff,bucket=watch_port:2,actions=output:2"),
        line(0, LineKind::Unspecified, "group add group_id=3,type=indirect,bucket=actions=output:1"),
        line(0, LineKind::AddMeter, "meter=4,pktps,burst,stats,bands=type=drop,rate=100,burst_size=10"),
        flow(0, "actions=meter:4,group:1"),
    ];
    let response = running.update(updates).await;
    assert!(response.applied, "{response:?}");
    let groups = |request: v1::ListGroupsRequest| {
        let mut client = GroupServiceClient::new(running.channel.clone());
        async move {
            let request = v1::ListGroupsRequest { bridge: "br0".to_owned(), ..request };
            let mut parts = client.list_groups(request).await?.into_inner();
            Ok::<_, Status>(parts.message().await?.unwrap_or_default().groups)
        }
    };
    let listed = groups(v1::ListGroupsRequest { names: true, ..Default::default() }).await.expect("groups");
    let want =
        "group_id=1,type=select,bucket=bucket_id:0,weight:50,actions=output:p1,bucket=bucket_id:1,actions=output:p2";
    assert_eq!((listed.len(), listed[0].line.as_str()), (3, want));
    let statistics = listed[0].statistics.clone().expect("numbers");
    assert_eq!((statistics.duration_ms, statistics.ref_count, statistics.buckets.len()), (2500, 1, 2));
    let typed = groups(v1::ListGroupsRequest { id: Some(2), form: Form::Typed.into(), ..Default::default() }).await;
    let group = typed.expect("a group").remove(0).group.expect("typed");
    assert_eq!((group.id, group.r#type(), group.buckets[0].watch_port), (2, v1::GroupType::FastFailover, Some(2)));
    let modify = v1::ModifyGroup {
        group: Some(v1::Group { buckets: Vec::new(), r#type: v1::GroupType::All.into(), ..group }),
        may_create: false,
    };
    assert!(running.update(vec![v1::Update { tag: 0, update: Some(Kind::ModifyGroup(modify)) }]).await.applied);

    let request = v1::ListMetersRequest { bridge: "br0".to_owned(), id: None };
    let mut parts =
        MeterServiceClient::new(running.channel.clone()).list_meters(request).await.expect("meters").into_inner();
    let meters = parts.message().await.expect("no error").expect("a message").meters;
    assert_eq!(meters[0].text.trim_end(), "meter=4 pktps burst stats bands=\ntype=drop rate=100 burst_size=10");
    assert_eq!(meters[0].statistics.as_ref().map(|statistics| statistics.flow_count), Some(1));
    // Without the meter and the group their flow goes too.
    let delete = vec![line(0, LineKind::DeleteMeters, "meter=4"), line(0, LineKind::DeleteGroups, "")];
    assert!(running.update(delete).await.applied);
    assert_eq!(running.lines("").await, [] as [&str; 0]);
    assert_eq!(groups(v1::ListGroupsRequest::default()).await.expect("groups"), []);
    running.stop().await;
}

#[tokio::test]
async fn lines_are_normalized_and_change_nothing() {
    let running = Running::with_bridge().await;
    let line = |tag, text: &str| v1::Line { tag, text: text.to_owned() };
    let lines = vec![
        line(1, "tcp,actions=mod_nw_tos:8,p2"),
        line(2, "tcp,actions=output:nowhere"),
        line(3, "nw_src=10.0.0.5/24,ip,actions=drop"),
    ];
    let request = v1::NormalizeFlowsRequest { bridge: "br0".to_owned(), lines, form: Form::Line.into(), names: false };
    let mut client = PipelineServiceClient::new(running.channel.clone());
    let flows = client.normalize_flows(request.clone()).await.expect("an answer").into_inner().flows;
    let status = |i: usize| flows[i].status.clone().expect("a status");
    assert_eq!(
        flows[0].flow.as_ref().map(|flow| flow.line.as_str()),
        Some("tcp actions=set_field:2->ip_dscp,output:2")
    );
    assert_eq!((flows[1].flow.clone(), status(1).tag, status(1).outcome()), (None, 2, UpdateOutcome::Invalid));
    assert_eq!((flows[2].flow.is_some(), status(2).warnings.len()), (true, 1));
    assert_eq!(running.lines("").await, [] as [&str; 0]);
    let none = v1::NormalizeFlowsRequest { bridge: "br9".to_owned(), ..request.clone() };
    assert_eq!(client.normalize_flows(none).await.expect_err("no bridge").code(), Code::NotFound);
    let nameless = v1::NormalizeFlowsRequest { bridge: String::new(), ..request };
    let flows = client.normalize_flows(nameless).await.expect("an answer").into_inner().flows;
    assert!(flows[0].flow.is_none(), "p2 has no meaning without a bridge: {flows:?}");
    running.stop().await;
}

#[tokio::test]
async fn flows_that_go_are_told() {
    let running = Running::with_bridge().await;
    assert!(running.update(vec![flow(0, "cookie=3,priority=5,in_port=1,send_flow_rem,actions=drop")]).await.applied);
    let request = v1::WatchFlowsRequest { bridge: "br0".to_owned(), ..Default::default() };
    let mut client = FlowServiceClient::new(running.channel.clone());
    let mut stream = client.watch_flows(request.clone()).await.expect("a stream").into_inner();
    assert!(running.update(vec![line(0, LineKind::DeleteFlows, "")]).await.applied);
    let message = soon("an event", stream.message()).await.expect("no error").expect("a message");
    let Some(v1::watch_flows_response::Update::Removed(removed)) = message.update else { panic!("{message:?}") };
    assert_eq!(removed.reason(), v1::FlowRemovedReason::Delete);
    let line = removed.flow.expect("a flow").line;
    assert!(
        line.starts_with(
            "OFPT_FLOW_REMOVED (OF1.5) (xid=0x0): priority=5,in_port=1 reason=delete table_id=0 cookie:0x3 duration"
        ),
        "{line}"
    );
    let none = v1::WatchFlowsRequest { bridge: "br9".to_owned(), ..request };
    assert_eq!(client.watch_flows(none).await.expect_err("no bridge").code(), Code::NotFound);
    running.stop().await;
    let status = soon("the end", stream.message()).await.expect_err("a status");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn packet_ins_reach_their_stream_with_everything() {
    let running = Running::with_bridge().await;
    let mut client = PacketServiceClient::new(running.channel.clone());
    let request =
        v1::WatchPacketInsRequest { bridge: "br0".to_owned(), controller_id: 7, names: true, invalid_ttl: false };
    let mut stream = client.watch_packet_ins(request.clone()).await.expect("a stream").into_inner();
    let (controller, sender, lost) = running.switch.packet_ins.lock().pop().expect("a subscription");
    assert_eq!(controller, 7);
    let mut metadata = FlowKey::default();
    metadata.set(Field::InPort, 1);
    metadata.set(Field::CtLabel, 5);
    let packet_in = PacketIn {
        table: 3,
        cookie: 9,
        reason: Reason::Group,
        controller,
        userdata: [1, 2].into(),
        metadata,
        packet: vec![2; 14],
        received: None,
        continuation: None,
        token: vec![8],
    };
    sender.send(packet_in.clone()).await.expect("room");
    lost.store(5, Relaxed);
    sender.send(packet_in).await.expect("room");
    let mut messages = Vec::new();
    for _ in 0..3 {
        let message = soon("a packet", stream.message()).await.expect("no error").expect("a message");
        messages.push(message.update.expect("an update"));
    }
    use v1::watch_packet_ins_response::Update;
    assert!(messages.contains(&Update::Lost(5)), "{messages:?}");
    let Some(Update::PacketIn(told)) = messages.pop() else { panic!("{messages:?}") };
    assert_eq!(
        (told.table, told.cookie, told.reason(), told.controller_id),
        (3, Some(9), v1::PacketInReason::Group, 7)
    );
    assert_eq!((told.userdata, told.packet, told.continuation), (vec![1, 2], vec![2; 14], vec![8]));
    let names: Vec<_> = told.metadata.iter().map(|field| field.field.as_str()).collect();
    assert_eq!(names, ["ct_label", "in_port"]);
    assert!(told.text.contains("in_port=p1 (via group)"), "{}", told.text);
    let wide = v1::WatchPacketInsRequest { controller_id: 65_536, ..request };
    assert_eq!(client.watch_packet_ins(wide).await.expect_err("too large").code(), Code::InvalidArgument);
    running.stop().await;
}

#[tokio::test]
async fn packets_are_sent_resumed_and_traced() {
    use v1::send_packet_request::PacketOut as Kind;
    let running = Running::with_bridge().await;
    let mut client = PacketServiceClient::new(running.channel.clone());
    let request = |kind| v1::SendPacketRequest { bridge: "br0".to_owned(), packet_out: Some(kind) };
    let text = "in_port=LOCAL,packet=0200000000020200000000018888,actions=p2".to_owned();
    client.send_packet(request(Kind::Text(text))).await.expect("sent");
    let doing = Some(v1::packet_out::Doing::ActionsText("output:p1".to_owned()));
    let typed = v1::PacketOut { packet: vec![2; 14], doing, ..Default::default() };
    client.send_packet(request(Kind::Typed(typed.clone()))).await.expect("sent");
    let calls = running.switch.calls.lock().join("\n");
    assert!(calls.contains("Output { port: 2,") && calls.contains("Output { port: 1,"), "{calls}");
    let status = client.send_packet(request(Kind::Text("packet=zz".to_owned()))).await.expect_err("no hex");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let field =
        v1::FieldValue { field: "nw_src".to_owned(), value: Some(v1::field_value::Value::Number(1)), mask: None };
    let status = client.send_packet(request(Kind::Typed(v1::PacketOut { metadata: vec![field], ..typed }))).await;
    assert_eq!(
        status.expect_err("no metadata").message(),
        "metadata: ip_src cannot be given to a packet; in_port, metadata, registers and tunnel fields can; set others with actions"
    );
    let none = v1::SendPacketRequest { bridge: "br0".to_owned(), packet_out: None };
    assert_eq!(client.send_packet(none).await.expect_err("nothing").code(), Code::InvalidArgument);

    let resume = v1::ResumePacketRequest { bridge: "br0".to_owned(), continuation: vec![1, 2], packet: Vec::new() };
    client.resume_packet(resume).await.expect("resumed");
    let mut traces = TraceServiceClient::new(running.channel.clone());
    let trace = |input| v1::TraceRequest { bridge: "br0".to_owned(), input, names: true, ct_next: Vec::new() };
    let packet = |in_port: &str| {
        v1::trace_request::Input::Packet(v1::TracePacket { in_port: in_port.to_owned(), packet: vec![7] })
    };
    let told = traces.trace(trace(Some(packet("p2")))).await.expect("a trace").into_inner();
    assert_eq!((told.text.as_str(), told.drop_reason.as_str()), ("a story", "table_miss"));
    traces.trace(trace(Some(v1::trace_request::Input::Flow("tcp".to_owned())))).await.expect("a trace");
    assert_eq!(traces.trace(trace(Some(packet("p9")))).await.expect_err("no port").code(), Code::NotFound);
    assert_eq!(traces.trace(trace(None)).await.expect_err("no input").code(), Code::InvalidArgument);
    let behind = |flags: &[&str]| v1::TraceRequest {
        ct_next: flags.iter().map(|flags| (*flags).to_owned()).collect(),
        ..trace(Some(v1::trace_request::Input::Flow("udp".to_owned())))
    };
    traces.trace(behind(&["trk,est", "new|rel"])).await.expect("a trace");
    let status = traces.trace(behind(&["trk,old"])).await.expect_err("no flag");
    let message = "ct_next: \"old\" is no flag of ct_state; flags are new est rel rpl inv trk snat dnat, with commas between them";
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, message));
    let calls = running.switch.calls.lock().split_off(2).join("\n");
    let expected = [
        "resume [1, 2] []",
        "trace Packet { in_port: 2, bytes: [7] } true []",
        "trace Flow(\"tcp\") true []",
        "trace Flow(\"udp\") true [34, 37]",
    ];
    assert_eq!(calls, expected.join("\n"));

    let mut flows = FlowServiceClient::new(running.channel.clone());
    let mut parts = flows.list_megaflows(v1::ListMegaflowsRequest::default()).await.expect("megaflows").into_inner();
    assert_eq!(parts.message().await.expect("no error").expect("a message").megaflows.len(), 1);
    let none = v1::ListMegaflowsRequest { bridge: "br9".to_owned() };
    assert_eq!(flows.list_megaflows(none).await.expect_err("no bridge").code(), Code::NotFound);
    running.stop().await;
}

#[tokio::test]
async fn what_tests_need_is_served_only_when_asked_for() {
    let running = Running::start().await;
    let mut client = DummyServiceClient::new(running.channel.clone());
    let status = client.stop_time(v1::StopTimeRequest {}).await.expect_err("not enabled");
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    running.stop().await;

    let running = Running::start_with(|switch| switch.dummies.store(true, Relaxed)).await;
    let mut client = DummyServiceClient::new(running.channel.clone());
    let request = |port: &str, packet: &[u8]| v1::ReceiveRequest { port: port.to_owned(), packet: packet.to_vec() };
    let requests = [request("p1", &[7]), request("p1", &[8, 9]), request("p9", &[1]), request("p1", &[2])];
    let mut answers = client.receive(tokio_stream::iter(requests)).await.expect("a stream").into_inner();
    for want in [&[7][..], &[8, 9]] {
        let answer = soon("an answer", answers.message()).await.expect("no error").expect("a message");
        assert_eq!(answer.sent, vec![v1::SentPacket { port: "p2".to_owned(), packet: want.to_vec() }; want.len()]);
    }
    let status = soon("the third", answers.message()).await.expect_err("no such port");
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    client.stop_time(v1::StopTimeRequest {}).await.expect("stopped");
    let warp = |milliseconds, step_milliseconds| v1::WarpTimeRequest { milliseconds, step_milliseconds };
    client.warp_time(warp(250, 100)).await.expect("warped");
    client.warp_time(warp(9, 0)).await.expect("warped");
    client.warp_time(warp(0, 0)).await.expect("warped");
    let status = client.warp_time(warp(u64::MAX, 1)).await.expect_err("too many steps");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    client.set_link(v1::SetLinkRequest { port: "p1".to_owned(), up: true }).await.expect("set");
    client.set_cache(v1::SetCacheRequest { enabled: Some(false), flush: true }).await.expect("set");
    let calls = running.switch.calls.lock().join(" ");
    assert_eq!(calls, "stop warp 100 warp 100 warp 50 warp 9 link p1 true cache false flush");
    running.stop().await;
}
