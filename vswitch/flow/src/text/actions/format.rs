//! Printing.

use super::parse::{REASONS, is_reserved};
use super::{ct, fields, hash, learn, reject};
use crate::action::{Controller, Reason, port};
use crate::text::{Names, Style, format_name, format_port, format_subfield, value};
use crate::{Action, Field, Subfield};

/// Where and how to print.
pub(super) struct Printer<'a> {
    pub(super) style: Style,
    pub(super) names: &'a dyn Names,
    pub(super) out: &'a mut String,
}

impl Printer<'_> {
    pub(super) fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(super) fn push(&mut self, args: std::fmt::Arguments<'_>) {
        value::push(self.out, args);
    }

    pub(super) fn subfield(&mut self, sub: Subfield) {
        format_subfield(sub, self.out);
    }

    pub(super) fn port(&mut self, number: u32) {
        format_port(number, self.style, self.names, self.out);
    }

    pub(super) fn table(&mut self, number: u8) {
        match self.names.table_name(number).filter(|_| self.style.names) {
            Some(name) => format_name(name, self.out),
            None => self.push(format_args!("{number}")),
        }
    }
}

/// A list; `drop` if it is empty.
pub(super) fn list(actions: &[Action], printer: &mut Printer<'_>) {
    if actions.is_empty() {
        return printer.text("drop");
    }
    for (i, action) in actions.iter().enumerate() {
        if i != 0 {
            printer.text(",");
        }
        print(action, printer);
    }
}

fn nested(name: &str, actions: &[Action], printer: &mut Printer<'_>) {
    printer.text(name);
    printer.text("(");
    list(actions, printer);
    printer.text(")");
}

fn print(action: &Action, printer: &mut Printer<'_>) {
    match action {
        Action::Output { port, max_len } => output(*port, *max_len, printer),
        Action::OutputField { from, .. } => with_subfield("output:", *from, printer),
        Action::Controller(to) => controller(to, printer),
        Action::Group(id) => printer.push(format_args!("group:{id}")),
        Action::Meter(id) => printer.push(format_args!("meter:{id}")),
        Action::SetField { field, value, mask } => set_field(*field, *value, *mask, printer),
        Action::Move { from, to } => {
            with_subfield("move:", *from, printer);
            with_subfield("->", *to, printer);
        }
        Action::SetTtl(ttl) => printer.push(format_args!("mod_nw_ttl:{ttl}")),
        Action::DecTtl(ids) => dec_ttl(ids, printer),
        Action::PushVlan(tpid) => printer.push(format_args!("push_vlan:{tpid:#x}")),
        Action::PopVlan => printer.text("pop_vlan"),
        Action::SetVlanVid(vid) => printer.push(format_args!("mod_vlan_vid:{vid}")),
        Action::SetVlanPcp(pcp) => printer.push(format_args!("mod_vlan_pcp:{pcp}")),
        Action::StackPush(from) => with_subfield("push:", *from, printer),
        Action::StackPop(to) => with_subfield("pop:", *to, printer),
        Action::Resubmit { port, table, ct } => resubmit(*port, *table, *ct, printer),
        Action::Multipath(multipath) => hash::print_multipath(multipath, printer),
        Action::Bundle(bundle) => hash::print_bundle(bundle, printer),
        Action::Learn(learn) => learn::print(learn, printer),
        Action::FinTimeout { idle, hard } => fin_timeout(*idle, *hard, printer),
        Action::Conjunction { id, clause, clauses } => {
            printer.push(format_args!("conjunction({id},{}/{clauses})", u16::from(*clause) + 1));
        }
        Action::Clone(actions) => nested("clone", actions, printer),
        Action::Reject(refusal) => reject::print(refusal, printer),
        Action::Note(bytes) => {
            printer.text("note:");
            hex(bytes, printer);
        }
        Action::Exit => printer.text("exit"),
        Action::Sample(sample) => hash::print_sample(sample, printer),
        Action::CheckPktLarger { len, to } => {
            printer.push(format_args!("check_pkt_larger({len})"));
            with_subfield("->", *to, printer);
        }
        Action::Ct(ct) => ct::print(ct, printer),
        Action::CtClear => printer.text("ct_clear"),
        Action::CtForget => printer.text("ct_forget"),
        Action::DeleteField(field) => printer.push(format_args!("delete_field:{}", field.name())),
        Action::ClearActions => printer.text("clear_actions"),
        Action::WriteActions(actions) => nested("write_actions", actions, printer),
        Action::WriteMetadata { value, mask: u64::MAX } => {
            printer.text("write_metadata:");
            value::push_hex((*value).into(), printer.out);
        }
        Action::WriteMetadata { value, mask } => {
            printer.text("write_metadata:");
            value::push_hex((*value).into(), printer.out);
            printer.text("/");
            value::push_hex((*mask).into(), printer.out);
        }
        Action::GotoTable(table) => {
            printer.text("goto_table:");
            printer.table(*table);
        }
    }
}

fn with_subfield(text: &str, sub: Subfield, printer: &mut Printer<'_>) {
    printer.text(text);
    printer.subfield(sub);
}

fn output(port: u32, max_len: Option<u16>, printer: &mut Printer<'_>) {
    match max_len {
        Some(len) => {
            printer.text("output(port=");
            printer.port(port);
            printer.push(format_args!(",max_len={len})"));
        }
        None if port == port::CONTROLLER => printer.text("CONTROLLER:65535"),
        None => {
            if !is_reserved(port) {
                printer.text("output:");
            }
            printer.port(port);
        }
    }
}

fn controller(to: &Controller, printer: &mut Printer<'_>) {
    let Controller { id, reason, max_len, userdata, pause, meter } = to;
    if *reason == Reason::Action && *id == 0 && userdata.is_empty() && !pause && meter.is_none() {
        return printer.push(format_args!("CONTROLLER:{max_len}"));
    }
    printer.text("controller(");
    if *reason != Reason::Action {
        let name = REASONS.iter().find(|(_, other)| other == reason).map_or("", |(name, _)| name);
        printer.push(format_args!("reason={name},"));
    }
    if *max_len != u16::MAX {
        printer.push(format_args!("max_len={max_len},"));
    }
    if *id != 0 {
        printer.push(format_args!("id={id},"));
    }
    if !userdata.is_empty() {
        printer.text("userdata=");
        hex(userdata, printer);
        printer.text(",");
    }
    if *pause {
        printer.text("pause,");
    }
    if let Some(meter) = meter {
        printer.push(format_args!("meter_id={meter},"));
    }
    // The last comma; there is one, for something differs from CONTROLLER:N.
    printer.out.pop();
    printer.text(")");
}

fn set_field(field: Field, value: u128, mask: u128, printer: &mut Printer<'_>) {
    match field {
        // Left so where the protocol is not known.
        Field::TpSrc => printer.push(format_args!("mod_tp_src:{value}")),
        Field::TpDst => printer.push(format_args!("mod_tp_dst:{value}")),
        field => {
            printer.text("set_field:");
            fields::print_value(field, value, mask, printer);
            printer.text("->");
            printer.text(field.name());
        }
    }
}

fn dec_ttl(ids: &[u16], printer: &mut Printer<'_>) {
    printer.text("dec_ttl");
    if let [] | [0] = ids {
        return;
    }
    for (i, id) in ids.iter().enumerate() {
        printer.push(format_args!("{}{id}", if i == 0 { "(" } else { "," }));
    }
    printer.text(")");
}

fn resubmit(port: Option<u32>, table: Option<u8>, ct: bool, printer: &mut Printer<'_>) {
    if let (Some(port), None, false) = (port, table, ct) {
        printer.text("resubmit:");
        return printer.port(port);
    }
    printer.text("resubmit(");
    if let Some(port) = port {
        printer.port(port);
    }
    printer.text(",");
    if let Some(table) = table {
        printer.table(table);
    }
    printer.text(if ct { ",ct)" } else { ")" });
}

fn fin_timeout(idle: u32, hard: u32, printer: &mut Printer<'_>) {
    printer.text("fin_timeout(");
    if idle != 0 {
        printer.push(format_args!("idle_timeout={idle}"));
    }
    if hard != 0 {
        printer.push(format_args!("{}hard_timeout={hard}", if idle == 0 { "" } else { "," }));
    }
    printer.text(")");
}

fn hex(bytes: &[u8], printer: &mut Printer<'_>) {
    for (i, byte) in bytes.iter().enumerate() {
        printer.push(format_args!("{}{byte:02x}", if i == 0 { "" } else { "." }));
    }
}
