//! Names that rules mean.

use super::listing::Listed;
use super::parts;
use super::words::list;
use crate::client::Client;
use crate::error::Error;
use crate::output::Columns;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// Names that a pattern means; an empty one: all.
pub(super) async fn fqdns(client: &Client, pattern: &str) -> Result<Vec<v1::Fqdn>, Error> {
    let request = v1::ListFqdnsRequest { pattern: pattern.to_owned() };
    let answer = client.antrea_policies().await?.list_fqdns(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.fqdns).collect())
}

fn rules(fqdn: &v1::Fqdn) -> Vec<String> {
    fqdn.rules.iter().map(|rule| format!("{}/{}", rule.policy, rule.rule)).collect()
}

/// `fqdns`: a line for each address.
impl Listed for v1::Fqdn {
    const COLUMNS: Columns<'static> = &[("NAME", false), ("ADDRESS", false), ("FOR", true), ("RULES", false)];
    const NOUN: &'static str = "name";
    const VERB: &'static str = "fqdns";

    fn name(&self) -> &str {
        &self.name
    }

    fn rows(&self, _is_asked_for: bool) -> Vec<Vec<String>> {
        let rules = list(&rules(self));
        let row = |address: &v1::FqdnAddress| {
            let seconds = address.expires_in_ms.div_ceil(1000);
            vec![self.name.clone(), address.address.clone(), format!("{seconds} s"), rules.clone()]
        };
        self.addresses.iter().map(row).collect()
    }

    fn json(&self) -> Value {
        let address =
            |address: &v1::FqdnAddress| json!({ "address": address.address, "expires_in_ms": address.expires_in_ms });
        let addresses: Vec<Value> = self.addresses.iter().map(address).collect();
        json!({ "name": self.name, "addresses": addresses, "rules": rules(self) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;

    #[test]
    fn a_line_for_each_address() {
        let address = |address: &str, expires_in_ms| v1::FqdnAddress { address: address.to_owned(), expires_in_ms };
        let rule = |rule: &str| v1::RuleRef { policy: "acnp:a".to_owned(), rule: rule.to_owned(), number: 2 };
        let fqdn = v1::Fqdn {
            name: "www.example.com".to_owned(),
            addresses: vec![address("192.0.2.1", 1), address("2001:db8::1", 60_000)],
            rules: vec![rule("egress-0"), rule("egress-1")],
        };
        let listing = Listing::new(vec![fqdn], &[]);
        let want = "\
NAME             ADDRESS       FOR  RULES
www.example.com  192.0.2.1     1 s  acnp:a/egress-0,acnp:a/egress-1
www.example.com  2001:db8::1  60 s  acnp:a/egress-0,acnp:a/egress-1
";
        assert_eq!(listing.text(), want);
        let rules = json!(["acnp:a/egress-0", "acnp:a/egress-1"]);
        let addresses = json!([
            { "address": "192.0.2.1", "expires_in_ms": 1 },
            { "address": "2001:db8::1", "expires_in_ms": 60_000 },
        ]);
        assert_eq!(listing.json(), json!([{ "name": "www.example.com", "addresses": addresses, "rules": rules }]));
    }
}
