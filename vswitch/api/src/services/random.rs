//! Random messages, through the same as those of the fuzz target `grpc_decode`: what converts is
//! told, and converts back to the same. A fuzzer that changes bytes seldom hits upon the name of a
//! field.

use super::fuzz;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;
use vswitch_flow::Field;
use vswitch_proto::v1;
use vswitch_proto::v1::action::Action as Kind;
use vswitch_proto::v1::field_value::{Mask, Value};

/// Matches with which most fields are there, and some that are matched with others.
const MATCHES: &[&str] =
    &["", "tcp", "udp6,dl_vlan=5", "arp", "icmp6,icmpv6_type=135,icmpv6_code=0", "ip,ct_state=+est+trk"];

/// A number of 32 bits, mostly one that means something somewhere.
fn number() -> BoxedStrategy<u32> {
    let edges = vec![0, 1, 21, 64, 128, 253, 254, 255, 0xfeff, 0xff00, 0xfff8, 0xfffe, 0xffff, 0x1_0000, 0xffff_0001];
    let most = vec![0xffff_ff00, 0xffff_ff01, 0xffff_fff8, 0xffff_fffd, 0xffff_fffe, u32::MAX];
    prop_oneof![4 => 0u32..20, 4 => select(edges), 2 => select(most), 1 => any::<u32>()].boxed()
}

fn octets() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        number().prop_map(|number| number.to_be_bytes().into()),
        vec(select(vec![0u8, 1, 0xff]), 16),
        vec(select(vec![0u8, 1, 16, 0xff]), 0..17)
    ]
    .boxed()
}

fn field() -> BoxedStrategy<String> {
    select(Field::ALL).prop_map(|field| field.name().to_owned()).boxed()
}

fn value() -> BoxedStrategy<v1::FieldValue> {
    let value = prop_oneof![number().prop_map(|number| Value::Number(number.into())), octets().prop_map(Value::Octets)];
    let mask =
        prop_oneof![number().prop_map(|number| Mask::MaskNumber(number.into())), octets().prop_map(Mask::MaskOctets)];
    (field(), value, option::of(mask))
        .prop_map(|(field, value, mask)| v1::FieldValue { field, value: Some(value), mask })
        .boxed()
}

/// A field and its bits, most of them there.
fn bits() -> BoxedStrategy<v1::Subfield> {
    (field(), prop_oneof![Just(0u32), 0u32..33], prop_oneof![Just(0u32), select(vec![1, 13, 16, 32]), 0u32..129])
        .prop_map(|(field, start, length)| v1::Subfield { field, start, length })
        .boxed()
}

/// Two that are as wide, mostly.
fn pair() -> BoxedStrategy<(v1::Subfield, v1::Subfield)> {
    (bits(), bits(), 0u32..17).prop_map(|(from, to, length)| ((length, from), to)).prop_map(same_width).boxed()
}

fn same_width(((length, from), to): ((u32, v1::Subfield), v1::Subfield)) -> (v1::Subfield, v1::Subfield) {
    if length == 0 { (from, to) } else { (v1::Subfield { length, ..from }, v1::Subfield { length, ..to }) }
}

fn nat() -> BoxedStrategy<v1::NatAction> {
    let address = || prop_oneof![2 => Just(Vec::new()), 3 => vec(0u8..2, 4), 1 => vec(0u8..2, 16)];
    (0i32..3, address(), address(), number(), number(), any::<[bool; 3]>())
        .prop_map(|(kind, address_first, address_last, port_first, port_last, [persistent, hash, random])| {
            v1::NatAction { kind, address_first, address_last, port_first, port_last, persistent, hash, random }
        })
        .boxed()
}

fn ct() -> BoxedStrategy<Kind> {
    use v1::ct_action::Zone;
    let zone = prop_oneof![number().prop_map(Zone::ZoneId), bits().prop_map(Zone::ZoneFrom)];
    let exec = vec(value().prop_map(|value| v1::Action { action: Some(Kind::SetField(value)) }), 0..2);
    let alg = select(vec![0, 0, 0, 21, 69, 5]);
    (any::<bool>(), any::<bool>(), option::of(number()), option::of(zone), alg, option::of(nat()), exec)
        .prop_map(|(commit, force, table, zone, alg, nat, exec)| {
            Kind::Ct(v1::CtAction { commit, force, table, zone, alg, nat, exec })
        })
        .boxed()
}

fn learn() -> BoxedStrategy<Kind> {
    use v1::learn_copy::From;
    use v1::learn_spec::Spec;
    let copy = || {
        let of_field = pair().prop_map(|(from, to)| v1::LearnCopy { to: Some(to), from: Some(From::Field(from)) });
        let constant = (octets(), bits())
            .prop_map(|(constant, to)| v1::LearnCopy { to: Some(to), from: Some(From::Constant(constant)) });
        prop_oneof![of_field, constant]
    };
    let spec = prop_oneof![
        3 => copy().prop_map(Spec::Match),
        2 => copy().prop_map(Spec::Load),
        1 => bits().prop_map(Spec::Output)
    ];
    let specs = vec(spec.prop_map(|spec| v1::LearnSpec { spec: Some(spec) }), 0..3);
    (specs, option::of(number()), option::weighted(0.2, bits()), any::<bool>(), number())
        .prop_map(|(specs, table, result, flag, limit)| {
            let learn = v1::LearnAction { specs, table, result, limit, ..Default::default() };
            Kind::Learn(v1::LearnAction { send_flow_rem: flag, delete_learned: !flag, ..learn })
        })
        .boxed()
}

fn outputs() -> BoxedStrategy<Kind> {
    let controller = (number(), 0i32..7, option::of(number()), octets(), any::<bool>(), option::of(number())).prop_map(
        |(id, reason, max_len, userdata, pause, meter_id)| {
            Kind::Controller(v1::ControllerAction { id, reason, max_len, userdata, pause, meter_id })
        },
    );
    let resubmit = (option::of(number()), option::of(number()), any::<bool>());
    let bundle = (1i32..8, number(), any::<bool>(), vec(number(), 0..3), option::of(bits()));
    let sample = (number(), number(), option::of(number()), 0i32..3);
    prop_oneof![
        (number(), option::of(number())).prop_map(|(port, max_len)| Kind::Output(v1::OutputAction { port, max_len })),
        (bits(), option::of(number()))
            .prop_map(|(from, max_len)| Kind::OutputField(v1::OutputFieldAction { from: Some(from), max_len })),
        controller,
        number().prop_map(Kind::Group),
        number().prop_map(Kind::Meter),
        resubmit.prop_map(|(port, table, ct)| Kind::Resubmit(v1::ResubmitAction { port, table, ct })),
        bundle.prop_map(|(fields, basis, hrw, members, to)| {
            Kind::Bundle(v1::BundleAction { fields, basis, hrw, members, to })
        }),
        sample.prop_map(|(probability, collector_set_id, sampling_port, direction)| {
            let (obs_domain_id, obs_point_id) = (collector_set_id, probability);
            Kind::Sample(v1::SampleAction {
                probability,
                collector_set_id,
                obs_domain_id,
                obs_point_id,
                sampling_port,
                direction,
            })
        }),
    ]
    .boxed()
}

fn others() -> BoxedStrategy<Kind> {
    let multipath = (1i32..8, number(), 1i32..5, number(), number(), bits());
    prop_oneof![
        6 => value().prop_map(Kind::SetField),
        3 => pair().prop_map(|(from, to)| Kind::Move(v1::MoveAction { from: Some(from), to: Some(to) })),
        1 => number().prop_map(Kind::SetTtl),
        1 => vec(number(), 0..3).prop_map(|controller_ids| Kind::DecTtl(v1::DecTtlAction { controller_ids })),
        1 => select(vec![0x8100, 0x88a8, 1]).prop_map(Kind::PushVlan),
        1 => Just(Kind::PopVlan(v1::PopVlanAction {})),
        1 => number().prop_map(Kind::SetVlanVid),
        1 => number().prop_map(Kind::SetVlanPcp),
        2 => bits().prop_map(Kind::StackPush),
        2 => bits().prop_map(Kind::StackPop),
        2 => multipath.prop_map(|(fields, basis, algorithm, links, arg, to)| {
            Kind::Multipath(v1::MultipathAction { fields, basis, algorithm, links, arg, to: Some(to) })
        }),
        1 => (number(), number()).prop_map(|(idle_timeout, hard_timeout)| {
            Kind::FinTimeout(v1::FinTimeoutAction { idle_timeout, hard_timeout })
        }),
        1 => (number(), number(), number()).prop_map(|(id, clause, clauses)| {
            Kind::Conjunction(v1::ConjunctionAction { id, clause, clauses })
        }),
        1 => octets().prop_map(Kind::Note),
        1 => Just(Kind::Exit(v1::ExitAction {})),
        1 => (number(), bits()).prop_map(|(length, to)| {
            Kind::CheckPktLarger(v1::CheckPktLargerAction { length, to: Some(to) })
        }),
        1 => field().prop_map(Kind::DeleteField),
        1 => (any::<u64>(), option::of(any::<u64>())).prop_map(|(value, mask)| {
            Kind::WriteMetadata(v1::WriteMetadataAction { value, mask })
        }),
        1 => number().prop_map(Kind::GotoTable),
    ]
    .boxed()
}

fn actions() -> BoxedStrategy<v1::Actions> {
    let of = |actions: Vec<Kind>| v1::Actions {
        actions: actions.into_iter().map(|action| v1::Action { action: Some(action) }).collect(),
    };
    let simple = prop_oneof![2 => outputs(), 3 => others(), 2 => ct(), 2 => learn()];
    let nested = (vec(simple.clone(), 0..3), any::<bool>())
        .prop_map(move |(list, write)| if write { Kind::WriteActions(of(list)) } else { Kind::Clone(of(list)) });
    // Few lists of many stand up to every check.
    vec(prop_oneof![8 => simple, 1 => nested], 1..3).prop_map(of).boxed()
}

fn flow() -> BoxedStrategy<v1::Flow> {
    use v1::flow::{Doing, Matching};
    let matching = prop_oneof![
        3 => select(MATCHES).prop_map(|text| Matching::MatchText(text.to_owned())),
        1 => vec(value(), 1..3).prop_map(|fields| Matching::Match(v1::Match { fields })),
    ];
    (matching, actions(), prop_oneof![Just(0), number()])
        .prop_map(|(matching, actions, table)| v1::Flow {
            table,
            matching: Some(matching),
            doing: Some(Doing::Actions(actions)),
            ..Default::default()
        })
        .boxed()
}

fn bucket() -> BoxedStrategy<v1::Bucket> {
    let numbers = || prop_oneof![2 => Just(None), 1 => number().prop_map(Some)];
    (numbers(), numbers(), numbers(), numbers(), option::weighted(0.3, actions()))
        .prop_map(|(id, weight, watch_port, watch_group, doing)| v1::Bucket {
            id,
            weight,
            watch_port,
            watch_group,
            doing: doing.map(v1::bucket::Doing::Actions),
        })
        .boxed()
}

fn group() -> BoxedStrategy<v1::Group> {
    let param = prop_oneof![Just(0), any::<u64>()];
    (number(), 0i32..5, 0i32..3, param, vec(value(), 0..3), vec(bucket(), 0..3))
        .prop_map(|(id, kind, method, param, fields, buckets)| v1::Group {
            id,
            r#type: kind,
            selection_method: method,
            selection_param: param,
            selection_fields: fields,
            buckets,
        })
        .boxed()
}

fn meter() -> BoxedStrategy<v1::Meter> {
    let band = (number(), prop_oneof![Just(0), number()], option::of(number()))
        .prop_map(|(rate, burst_size, dscp_remark)| v1::Band { rate, burst_size, dscp_remark });
    (number(), any::<[bool; 3]>(), vec(band, 0..3))
        .prop_map(|(id, [pktps, burst, stats], bands)| v1::Meter { id, pktps, burst, stats, bands })
        .boxed()
}

fn request() -> BoxedStrategy<Vec<u8>> {
    use v1::update::Update;
    let place = v1::BucketPlace { place: Some(v1::bucket_place::Place::Last(true)) };
    let update = prop_oneof![
        8 => flow().prop_map(Update::AddFlow),
        3 => group().prop_map(Update::AddGroup),
        1 => meter().prop_map(Update::AddMeter),
        1 => (number(), vec(bucket(), 0..3)).prop_map(move |(group_id, buckets)| {
            Update::InsertBuckets(v1::InsertBuckets { group_id, place: Some(place), buckets })
        }),
    ];
    let write = update.prop_map(|update| {
        let updates = vec![v1::Update { tag: 1, update: Some(update) }];
        [vec![0], v1::WriteRequest { bridge: String::new(), updates, commit: true }.encode_to_vec()].concat()
    });
    let send = (vec(value(), 0..3), actions()).prop_map(|(metadata, actions)| {
        let doing = Some(v1::packet_out::Doing::Actions(actions));
        let typed = v1::PacketOut { metadata, packet: vec![0; 14], doing };
        let packet_out = Some(v1::send_packet_request::PacketOut::Typed(typed));
        [vec![1], v1::SendPacketRequest { bridge: String::new(), packet_out }.encode_to_vec()].concat()
    });
    prop_oneof![9 => write, 1 => send].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn what_converts_comes_back(request in request()) {
        fuzz::request(&request);
    }
}
