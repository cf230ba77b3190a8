//! Actions that choose by a hash, and samples.

use super::format::Printer;
use super::parse::Parser;
use crate::Action;
use crate::action::{Bundle, HashFields, Multipath, MultipathAlgorithm, Sample, SampleDirection, limits};
use crate::text::TextError;
use crate::text::scan::{Result, Token, Tokens, arguments, quoted};

const FIELDS: [(&str, HashFields); 7] = [
    ("eth_src", HashFields::EthSrc),
    ("symmetric_l4", HashFields::SymmetricL4),
    ("symmetric_l3l4", HashFields::SymmetricL3L4),
    ("symmetric_l3l4+udp", HashFields::SymmetricL3L4Udp),
    ("nw_src", HashFields::NwSrc),
    ("nw_dst", HashFields::NwDst),
    ("symmetric_l3", HashFields::SymmetricL3),
];

const ALGORITHMS: [(&str, MultipathAlgorithm); 4] = [
    ("modulo_n", MultipathAlgorithm::ModuloN),
    ("hash_threshold", MultipathAlgorithm::HashThreshold),
    ("hrw", MultipathAlgorithm::Hrw),
    ("iter_hash", MultipathAlgorithm::IterHash),
];

const MULTIPATH: &str = "multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARG,FIELD)";
const BUNDLE: &str = "bundle(FIELDS,BASIS,ALGORITHM,ofport,members:PORT,...)";
const BUNDLE_LOAD: &str = "bundle_load(FIELDS,BASIS,ALGORITHM,ofport,FIELD,members:PORT,...)";

/// A word of a table.
fn word<T: Copy, const N: usize>(parser: &Parser<'_>, text: &str, what: &str, table: [(&str, T); N]) -> Result<T> {
    let found = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| parser.source.unknown(text, what, table.map(|(name, _)| name)))
}

/// The name of a value of a table.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}

/// The next argument, of which there must be one.
fn next<'a>(
    parser: &Parser<'a>,
    token: &Token<'a>,
    parts: &mut impl Iterator<Item = &'a str>,
    usage: &str,
) -> std::result::Result<&'a str, TextError> {
    parts.next().filter(|part| !part.is_empty()).ok_or_else(|| {
        let error = parser.source.error(token.key, format!("{} has not enough arguments", token.key));
        error.hint(usage).field(token.key)
    })
}

/// `multipath(fields,basis,algorithm,n_links,arg,dst)`
pub(super) fn multipath<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let source = parser.source;
    let mut parts = arguments(token.value);
    let mut next = || next(parser, token, &mut parts, MULTIPATH);
    let fields = word(parser, next()?, "set of fields to hash", FIELDS)?;
    let basis = source.u16("basis", next()?)?;
    let algorithm = word(parser, next()?, "algorithm", ALGORITHMS)?;
    let links_text = next()?;
    let links = source.number("number of links", links_text, 1, u16::MAX.into())?;
    let arg = source.u32("argument", next()?)?;
    let name = next()?;
    let to = parser.subfield(name)?;
    if to.len < 16 && links > 1 << to.len {
        let error = source.error(links_text, format!("{links} links do not fit into {} bits", to.len));
        return Err(error.hint("give fewer links, or more bits to the result").code("OFPBAC_BAD_ARGUMENT"));
    }
    let links = u16::try_from(links).unwrap_or(u16::MAX);
    Ok(Action::Multipath(Box::new(Multipath { fields, basis, algorithm, links, arg, to })))
}

pub(super) fn print_multipath(multipath: &Multipath, printer: &mut Printer<'_>) {
    let Multipath { fields, basis, algorithm, links, arg, to } = multipath;
    let (fields, algorithm) = (name_of(&FIELDS, fields), name_of(&ALGORITHMS, algorithm));
    printer.push(format_args!("multipath({fields},{basis},{algorithm},{links},{arg},"));
    printer.subfield(*to);
    printer.text(")");
}

/// `bundle(...)`, or with `load` `bundle_load(...)`.
pub(super) fn bundle<'a>(parser: &Parser<'a>, token: &Token<'a>, load: bool) -> Result<Action> {
    let usage = if load { BUNDLE_LOAD } else { BUNDLE };
    let mut parts = arguments(token.value);
    let mut next = || next(parser, token, &mut parts, usage);
    let fields = word(parser, next()?, "set of fields to hash", FIELDS)?;
    let basis = parser.source.u16("basis", next()?)?;
    let hrw = word(parser, next()?, "algorithm", [("active_backup", false), ("hrw", true)])?;
    word(parser, next()?, "kind of members", [("ofport", ())])?;
    let to = if load { Some(parser.subfield(next()?)?) } else { None };
    let first = next()?;
    let first = ["members", "slaves"]
        .iter()
        .find_map(|word| first.strip_prefix(word).and_then(|rest| rest.trim_start().strip_prefix(':')));
    let Some(first) = first else {
        let error = parser.source.error(token.value, "the members are missing").hint(usage);
        return Err(error.field(token.key));
    };
    let members: Vec<u32> = std::iter::once(first.trim())
        .chain(parts)
        .filter(|part| !part.is_empty())
        .map(|part| parser.port(part.trim_matches(['[', ']'])))
        .collect::<Result<_>>()?;
    if members.len() > limits::MAX_MEMBERS {
        let reason = format!("{} members: at most {}", members.len(), limits::MAX_MEMBERS);
        return Err(parser.source.error(token.value, reason).code("OFPBAC_BAD_ARGUMENT"));
    }
    if let Some(to) = to.filter(|to| to.len < 16) {
        let error = parser.source.error(token.value, format!("a port does not fit into {} bits", to.len));
        return Err(error.hint("give bundle_load at least 16 bits").code("OFPBAC_BAD_ARGUMENT"));
    }
    Ok(Action::Bundle(Box::new(Bundle { fields, basis, hrw, members: members.into(), to })))
}

pub(super) fn print_bundle(bundle: &Bundle, printer: &mut Printer<'_>) {
    let Bundle { fields, basis, hrw, members, to } = bundle;
    let (name, algorithm) =
        (if to.is_some() { "bundle_load" } else { "bundle" }, if *hrw { "hrw" } else { "active_backup" });
    printer.push(format_args!("{name}({},{basis},{algorithm},ofport,", name_of(&FIELDS, fields)));
    if let Some(to) = to {
        printer.subfield(*to);
        printer.text(",");
    }
    printer.text("members:");
    for (i, member) in members.iter().enumerate() {
        if i != 0 {
            printer.text(",");
        }
        printer.port(*member);
    }
    printer.text(")");
}

/// `sample(probability=12345,collector_set_id=1,...)`
pub(super) fn sample<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    const KEYS: [&str; 7] =
        ["probability", "collector_set_id", "obs_domain_id", "obs_point_id", "sampling_port", "ingress", "egress"];
    let source = parser.source;
    let mut sample = Sample::default();
    let mut tokens = Tokens::new(source, token.value);
    while let Some(token) = tokens.next()? {
        let value = token.value;
        match token.key {
            "probability" => {
                let probability = source.number("probability", value, 1, u16::MAX.into())?;
                sample.probability = u16::try_from(probability).unwrap_or(u16::MAX);
            }
            "collector_set_id" => sample.collector_set = source.u32("id", value)?,
            "obs_domain_id" => sample.domain = source.u32("id", value)?,
            "obs_point_id" => sample.point = source.u32("id", value)?,
            "sampling_port" => {
                sample.port = Some(parser.port(value)?).filter(|port| *port != crate::action::port::NONE);
            }
            "ingress" => sample.direction = SampleDirection::Ingress,
            "egress" => sample.direction = SampleDirection::Egress,
            key => return Err(source.unknown(key, "argument of sample", KEYS)),
        }
    }
    if sample.probability == 0 {
        let reason = format!("sample{} has no probability", quoted(token.value));
        return Err(source.error(token.key, reason).hint("probability=1 to 65535, of 65535 packets").field("sample"));
    }
    Ok(Action::Sample(Box::new(sample)))
}

pub(super) fn print_sample(sample: &Sample, printer: &mut Printer<'_>) {
    let Sample { probability, collector_set, domain, point, port, direction } = sample;
    printer.push(format_args!(
        "sample(probability={probability},collector_set_id={collector_set},obs_domain_id={domain},obs_point_id={point}"
    ));
    if let Some(port) = port {
        printer.text(",sampling_port=");
        printer.port(*port);
    }
    printer.text(match direction {
        SampleDirection::Default => ")",
        SampleDirection::Ingress => ",ingress)",
        SampleDirection::Egress => ",egress)",
    });
}
