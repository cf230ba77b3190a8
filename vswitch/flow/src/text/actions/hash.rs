//! Actions that choose by a hash, and samples.

use super::format::Printer;
use super::parse::Parser;
use crate::Action;
use crate::action::{Bundle, HashFields, Multipath, MultipathAlgorithm, Sample, SampleDirection, rules};
use crate::text::TextError;
use crate::text::scan::{Result, Token, Tokens, arguments};

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
    let links = source.u16("number of links", links_text)?;
    let arg = source.u32("argument", next()?)?;
    let name = next()?;
    let to = parser.subfield(name)?;
    source.judged(links_text, rules::links(links, to.len))?;
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
    parser.source.judged(token.value, rules::members(members.len(), to))?;
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
            "probability" => sample.probability = source.u16("probability", value)?,
            "collector_set_id" => sample.collector_set = source.u32("id", value)?,
            "obs_domain_id" => sample.domain = source.u32("id", value)?,
            "obs_point_id" => sample.point = source.u32("id", value)?,
            "sampling_port" => sample.port = Some(parser.port(value)?),
            "ingress" => sample.direction = SampleDirection::Ingress,
            "egress" => sample.direction = SampleDirection::Egress,
            key => return Err(source.unknown(key, "argument of sample", KEYS)),
        }
    }
    source.judged(token.key, rules::sample(sample.probability))?;
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
