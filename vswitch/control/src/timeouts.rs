//! Timeouts of connections by the names of Open vSwitch (table `CT_Timeout_Policy` of
//! ovs-vswitchd.conf.db(5)), in seconds.

use vswitch_conntrack::{Class, KERNEL_ONLY, Policy};
use vswitch_dataplane::port::FieldError;

/// What is said of a name that only the kernel's tracker knows.
pub(super) const NO_EFFECT: &str = "has no effect: only the tracker of the kernel has such a state";

/// Other protocols have the timeouts of UDP, unless they are given their own: Open vSwitch knows no
/// names for theirs.
const LIKE_UDP: [(Class, Class); 3] = [
    (Class::OtherFirst, Class::UdpFirst),
    (Class::OtherSingle, Class::UdpSingle),
    (Class::OtherMultiple, Class::UdpMultiple),
];

/// The default policy with these timeouts in it, and what was odd. `field` names the field in
/// errors.
///
/// # Errors
/// For every name that is not known, and every 0.
pub fn policy<'a>(
    field: &'static str,
    seconds: impl IntoIterator<Item = (&'a str, u32)>,
) -> Result<(Policy, Vec<String>), Vec<FieldError>> {
    let (mut policy, mut warnings, mut errors) = (Policy::default(), Vec::new(), Vec::new());
    let mut given = Vec::new();
    for (name, value) in seconds {
        if KERNEL_ONLY.contains(&name) {
            warnings.push(format!("{name} {NO_EFFECT}"));
            continue;
        }
        let Ok(class) = name.parse::<Class>() else {
            let all: Vec<_> = names().collect();
            let problem = format!("{:?} is no timeout", name.chars().take(64).collect::<String>());
            errors.push(FieldError::new(field, problem, format!("use one of: {}", all.join(", "))));
            continue;
        };
        if value == 0 {
            errors.push(FieldError::new(field, format!("{name} is 0"), "use 1 to 4294967295 seconds"));
        }
        policy.set(class, u64::from(value) * 1000);
        given.push(class);
    }
    for (other, udp) in LIKE_UDP.iter().filter(|(other, udp)| given.contains(udp) && !given.contains(other)) {
        policy.set(*other, policy.get(*udp));
    }
    if errors.is_empty() { Ok((policy, warnings)) } else { Err(errors) }
}

/// All names that have an effect.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    Class::ALL.into_iter().map(Class::name)
}

/// All names that are accepted.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    names().chain(KERNEL_ONLY)
}

/// Every timeout of a policy by name, in seconds, in the order of [`Class::ALL`].
pub fn seconds(policy: &Policy) -> impl Iterator<Item = (&'static str, u32)> + '_ {
    Class::ALL.into_iter().map(|class| (class.name(), u32::try_from(policy.get(class) / 1000).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_its_own_timeout_and_is_told() {
        for (i, class) in Class::ALL.into_iter().enumerate() {
            let name = class.name();
            let (policy, warnings) = policy("timeouts", [(name, 7)]).expect(name);
            assert_eq!((policy.get(class), warnings.len()), (7000, 0), "{name}");
            let told: Vec<_> = seconds(&policy).collect();
            let defaults: Vec<_> = seconds(&Policy::default()).collect();
            let differ: Vec<_> = (0..Class::ALL.len()).filter(|i| told[*i] != defaults[*i]).collect();
            // Those of UDP are those of other protocols, too.
            let want = if name.starts_with("udp") { vec![i, i + 5] } else { vec![i] };
            assert_eq!((told[i], differ), ((name, 7), want), "{name}");
        }
        let (policy, _) = policy("timeouts", [("udp_first", u32::MAX)]).expect("the highest number");
        assert_eq!(policy.get(Class::UdpFirst), 4_294_967_295_000);
        assert_eq!(names().count(), Class::ALL.len(), "every class has a name");
        let (policy, _) = self::policy("timeouts", [("other_first", 3), ("udp_first", 4)]).expect("both");
        assert_eq!((policy.get(Class::OtherFirst), policy.get(Class::UdpFirst)), (3000, 4000));
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let given = [("udp", 1), ("udp_first", 0), ("tcp_unack", 0)];
        let errors = policy("timeouts", given).expect_err("errors");
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with("timeouts: \"udp\" is no timeout; use one of: tcp_syn_sent, "), "{told:?}");
        assert_eq!(told[1], "timeouts: udp_first is 0; use 1 to 4294967295 seconds");
        assert_eq!(told.len(), 2, "{told:?}");
        let (policy, warnings) = policy("timeouts", [("tcp_unack", 9)]).expect("a name without effect");
        assert_eq!(policy, Policy::default());
        assert_eq!(warnings, ["tcp_unack has no effect: only the tracker of the kernel has such a state"]);
    }
}
