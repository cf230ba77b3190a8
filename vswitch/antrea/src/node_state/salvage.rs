//! What is in force of an object that is wrong: policies and groups are never simply absent.

use crate::Problems;
use crate::desired::Entry;
use crate::object::Object;
use std::sync::Arc;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object as Message;

/// How an object that is wrong is in force all the same. None: it is not.
///
/// `object` is what was made of the message ([`Object::read`]), `before` what is in force now.
pub(super) fn entry(
    message: &Message,
    object: Option<Object>,
    mut flaws: Problems,
    before: Option<&Entry>,
) -> Option<Entry> {
    let object = object?;
    match (&object, before) {
        (Object::NetworkPolicy(policy), Some(before)) => {
            // The last form that was right, if there was one.
            let Some(Object::NetworkPolicy(old)) = right(&before.message) else {
                return entry(message, Some(object), flaws, None);
            };
            flaws.meanwhile(policy.told(true));
            let object = Object::NetworkPolicy(Arc::new(old.beside(policy)));
            let newest = Some(message.clone());
            Some(Entry { message: before.message.clone(), object, flaws, newest, withheld: false })
        }
        (Object::NetworkPolicy(policy), None) => {
            flaws.meanwhile(policy.told(false));
            Some(Entry { message: message.clone(), object, flaws, newest: None, withheld: false })
        }
        (Object::AddressGroup(_) | Object::AppliedToGroup(_), _) => {
            Some(Entry { message: message.clone(), object, flaws, newest: None, withheld: false })
        }
        _ => None,
    }
}

/// A message that is right by itself, read.
pub(super) fn right(message: &Message) -> Option<Object> {
    let mut problems = Problems::default();
    Object::read(message, &mut problems).filter(|_| problems.is_empty())
}

/// One object that one request has twice, in two forms: what both mean together. Groups of Pods
/// have the members of both, groups of addresses are not known, policies drop everything of what
/// both apply to. Others are refused. None: the kind has no such form.
pub(super) fn both(one: &Message, other: &Message) -> Option<Message> {
    Some(match (one, other) {
        (Message::NetworkPolicy(one), Message::NetworkPolicy(other)) => {
            let mut both = other.clone();
            both.applied_to.extend(one.applied_to.iter().cloned());
            both.rules.extend(one.rules.iter().cloned());
            both.isolates_ingress |= one.isolates_ingress;
            both.isolates_egress |= one.isolates_egress;
            // Neither of both kinds, whatever they say.
            both.kind = v1::PolicyKind::Unspecified.into();
            Message::NetworkPolicy(both)
        }
        (Message::AppliedToGroup(one), Message::AppliedToGroup(other)) => {
            let mut both = other.clone();
            both.pods.extend(one.pods.iter().cloned());
            both.services.extend(one.services.iter().cloned());
            Message::AppliedToGroup(both)
        }
        (Message::AddressGroup(_), Message::AddressGroup(other)) => {
            let nobody = v1::GroupMember::default();
            Message::AddressGroup(v1::AddressGroup { name: other.name.clone(), members: vec![nobody] })
        }
        _ => return None,
    })
}
