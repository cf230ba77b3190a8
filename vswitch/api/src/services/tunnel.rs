//! `TunnelService`.

use super::api::{Asked, Control};
use super::status::invalid;
use std::net::IpAddr;
use tonic::{Request, Response, Status};
use vswitch_control::{NeighbourInfo, RouteConfig, RouteInfo};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{Cidr, FieldError};
use vswitch_overlay::neighbours::Stats;
use vswitch_overlay::options::Mapping;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/tunnel.proto`.
pub(crate) struct TunnelSupport(pub(crate) Control);

fn wrong(field: &'static str, problem: String, hint: &str) -> Status {
    invalid(&[FieldError::new(field, problem, hint)])
}

fn address(field: &'static str, text: &str) -> Result<IpAddr, Status> {
    text.parse().map_err(|_| wrong(field, format!("{text:?} is no address"), "give an IPv4 or IPv6 address"))
}

fn prefix(text: &str) -> Result<Cidr, Status> {
    text.parse().map_err(|_| wrong("prefix", format!("{text:?} is no prefix"), "write it like 10.0.0.0/8"))
}

fn route_config(route: v1::Route) -> Result<RouteConfig, Status> {
    Ok(RouteConfig {
        prefix: prefix(&route.prefix)?,
        port: route.port,
        gateway: route.gateway.map(|text| address("gateway", &text)).transpose()?,
        source: route.source.map(|text| address("source", &text)).transpose()?,
    })
}

fn route(route: RouteInfo) -> v1::Route {
    v1::Route {
        prefix: route.prefix,
        port: route.port,
        gateway: route.gateway.map(|address| address.to_string()),
        source: route.source.map(|address| address.to_string()),
        user: route.user,
    }
}

fn neighbour(neighbour: NeighbourInfo) -> v1::Neighbour {
    v1::Neighbour {
        bridge: neighbour.bridge,
        address: neighbour.address.to_string(),
        mac: neighbour.mac.map(|mac| v1::MacAddress { octets: mac.0.to_vec() }),
        age_seconds: neighbour.age_s,
    }
}

fn statistics(stats: Stats) -> v1::NeighbourStatistics {
    let Stats { entries: _, pending, changed, held_off, refused, expired, evicted } = stats;
    v1::NeighbourStatistics { pending: pending as u64, changed, held_off, refused, expired, evicted }
}

fn mapping(mapping: &Mapping) -> v1::OptionMapping {
    let Mapping { class, kind, len, field } = *mapping;
    v1::OptionMapping { option_class: class.into(), option_type: kind.into(), length: len.into(), field: field.into() }
}

fn mappings(messages: &[v1::OptionMapping]) -> Result<Vec<Mapping>, Status> {
    let read = |message: &v1::OptionMapping| {
        Some(Mapping {
            class: message.option_class.try_into().ok()?,
            kind: message.option_type.try_into().ok()?,
            len: message.length.try_into().ok()?,
            field: message.field.try_into().ok()?,
        })
    };
    let hint = "give a class of 16 bits, a type of 8, a length of 4, 8, 12 or 16, a field of 0 to 7";
    let one = |message: &v1::OptionMapping| {
        read(message).ok_or_else(|| wrong("mappings", "a number is out of range".to_owned(), hint))
    };
    messages.iter().map(one).collect()
}

#[tonic::async_trait]
impl v1::tunnel_service_server::TunnelService for TunnelSupport {
    async fn list_routes(&self, _: Request<v1::ListRoutesRequest>) -> Result<Response<v1::ListRoutesResponse>, Status> {
        let routes = self.0.read(|switch| switch.routes()).await?;
        Ok(Response::new(v1::ListRoutesResponse { routes: routes.into_iter().map(route).collect() }))
    }

    async fn add_route(&self, request: Request<v1::AddRouteRequest>) -> Result<Response<v1::AddRouteResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let message = request.route.unwrap_or_default();
        let asked = Asked::new("AddRoute", &extensions, &[&message.prefix, &message.port]);
        let config = route_config(message)?;
        self.0.change(asked, move |switch| switch.add_route(&config)).await?;
        Ok(Response::new(v1::AddRouteResponse {}))
    }

    async fn delete_route(
        &self,
        request: Request<v1::DeleteRouteRequest>,
    ) -> Result<Response<v1::DeleteRouteResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("DeleteRoute", &extensions, &[&request.prefix]);
        let prefix = prefix(&request.prefix)?;
        self.0.change(asked, move |switch| switch.delete_route(prefix)).await?;
        Ok(Response::new(v1::DeleteRouteResponse {}))
    }

    async fn lookup_route(
        &self,
        request: Request<v1::LookupRouteRequest>,
    ) -> Result<Response<v1::LookupRouteResponse>, Status> {
        let to = address("address", &request.into_inner().address)?;
        let found = self.0.try_read(move |switch| switch.lookup_route(to)).await?;
        Ok(Response::new(v1::LookupRouteResponse { route: Some(route(found)) }))
    }

    async fn list_neighbours(
        &self,
        _: Request<v1::ListNeighboursRequest>,
    ) -> Result<Response<v1::ListNeighboursResponse>, Status> {
        let (neighbours, stats) = self.0.read(|switch| (switch.neighbours(), switch.neighbour_stats())).await?;
        let neighbours = neighbours.into_iter().map(neighbour).collect();
        Ok(Response::new(v1::ListNeighboursResponse { neighbours, statistics: Some(statistics(stats)) }))
    }

    async fn set_neighbour(
        &self,
        request: Request<v1::SetNeighbourRequest>,
    ) -> Result<Response<v1::SetNeighbourResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("SetNeighbour", &extensions, &[&request.bridge, &request.address]);
        let ip = address("address", &request.address)?;
        let octets = request.mac.unwrap_or_default().octets;
        let mac = octets.as_slice().try_into().map(Mac);
        let mac = mac.map_err(|_| wrong("mac", format!("{} bytes are no address", octets.len()), "give 6 bytes"))?;
        self.0.change(asked, move |switch| switch.set_neighbour(&request.bridge, ip, mac)).await?;
        Ok(Response::new(v1::SetNeighbourResponse {}))
    }

    async fn flush_neighbours(
        &self,
        request: Request<v1::FlushNeighboursRequest>,
    ) -> Result<Response<v1::FlushNeighboursResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("FlushNeighbours", &extensions, &[request.bridge.as_deref().unwrap_or("*")]);
        let call = move |switch: &dyn vswitch_control::SwitchApi| switch.flush_neighbours(request.bridge.as_deref());
        let flushed = self.0.change(asked, call).await?;
        Ok(Response::new(v1::FlushNeighboursResponse { flushed }))
    }

    async fn list_tunnel_listeners(
        &self,
        _: Request<v1::ListTunnelListenersRequest>,
    ) -> Result<Response<v1::ListTunnelListenersResponse>, Status> {
        let listeners = self.0.read(|switch| switch.tunnel_listeners()).await?;
        let listener = |(name, port): (String, u16)| v1::TunnelListener { name, port: port.into() };
        Ok(Response::new(v1::ListTunnelListenersResponse { listeners: listeners.into_iter().map(listener).collect() }))
    }

    async fn list_options(
        &self,
        request: Request<v1::ListOptionsRequest>,
    ) -> Result<Response<v1::ListOptionsResponse>, Status> {
        let bridge = request.into_inner().bridge;
        let found = self.0.try_read(move |switch| switch.option_map(&bridge)).await?;
        Ok(Response::new(v1::ListOptionsResponse { mappings: found.iter().map(mapping).collect() }))
    }

    async fn add_options(
        &self,
        request: Request<v1::AddOptionsRequest>,
    ) -> Result<Response<v1::AddOptionsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("AddOptions", &extensions, &[&request.bridge]);
        let mappings = mappings(&request.mappings)?;
        if mappings.is_empty() {
            return Err(wrong("mappings", "not given".to_owned(), "give at least one"));
        }
        self.0.change(asked, move |switch| switch.add_options(&request.bridge, &mappings)).await?;
        Ok(Response::new(v1::AddOptionsResponse {}))
    }

    async fn delete_options(
        &self,
        request: Request<v1::DeleteOptionsRequest>,
    ) -> Result<Response<v1::DeleteOptionsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("DeleteOptions", &extensions, &[&request.bridge]);
        let mappings = mappings(&request.mappings)?;
        self.0.change(asked, move |switch| switch.delete_options(&request.bridge, &mappings)).await?;
        Ok(Response::new(v1::DeleteOptionsResponse {}))
    }
}
