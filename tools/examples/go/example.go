// A Node with three Pods, a Service and a policy, told to a switch without anything by gRPC; then what was counted. See tools/examples/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	antrea "vswitch.io/api/antrea/v1"
	vswitch "vswitch.io/api/vswitch/v1"
)

const (
	bridge, gateway, tunnel = "br0", "gw0", "tun0"
	servicePort, webPort    = 80, 8080
	web                     = 3
)

// A pod of this Node. Its addresses and MAC are made of the number.
type pod struct {
	name   string
	number byte
	port   string
}

var pods = []pod{{"client", 2, "client0"}, {"web", web, "web0"}, {"stranger", 4, "stranger0"}}

// Both addresses of a Pod, or (1) of the gateway.
func addresses(number byte) []string {
	return []string{fmt.Sprintf("10.10.0.%d", number), fmt.Sprintf("fd00:10::%d", number)}
}

// The MAC address of a Pod or (1) of the gateway.
func mac(number byte) *vswitch.MacAddress {
	return &vswitch.MacAddress{Octets: []byte{0x02, 0, 0, 0x0a, 0, number}}
}

// A bridge that drops everything until it is programmed, with a port for each Pod, one for the host and one for tunnels.
func makeBridge(ctx context.Context, conn *grpc.ClientConn) error {
	config := &vswitch.BridgeConfig{Name: bridge, FailMode: vswitch.FailMode_FAIL_MODE_SECURE}
	if _, err := vswitch.NewBridgeServiceClient(conn).AddBridge(ctx, &vswitch.AddBridgeRequest{Bridge: config}); err != nil {
		return err
	}
	geneve := &vswitch.TunnelPort{
		Kind:    vswitch.TunnelKind_TUNNEL_KIND_GENEVE,
		Options: map[string]string{"remote_ip": "flow", "key": "flow"},
	}
	ports := []*vswitch.PortConfig{
		{Name: gateway, Mac: mac(1), Kind: &vswitch.PortConfig_Internal{Internal: &vswitch.InternalPort{}}},
		{Name: tunnel, NoFlood: true, Kind: &vswitch.PortConfig_Tunnel{Tunnel: geneve}},
	}
	for _, p := range pods {
		ports = append(ports, &vswitch.PortConfig{Name: p.port, Kind: &vswitch.PortConfig_Tap{Tap: &vswitch.TapPort{}}})
	}
	client := vswitch.NewPortServiceClient(conn)
	for _, port := range ports {
		made, err := client.AddPort(ctx, &vswitch.AddPortRequest{Bridge: bridge, Port: port})
		if err != nil {
			return err
		}
		fmt.Printf("port %d: %s (%s)\n", made.Port.Number, made.Port.Config.Name, made.Port.Type)
	}
	return nil
}

// What the switch has to know of its Node.
func theNode() *antrea.NodeConfig {
	return &antrea.NodeConfig{
		Name:               "example-node",
		Bridge:             bridge,
		Families:           antrea.Families_FAMILIES_DUAL,
		PodCidrs:           []string{"10.10.0.0/24", "fd00:10::/64"},
		ServiceCidrs:       []string{"10.96.0.0/12", "fd00:96::/64"},
		TransportAddresses: []string{"192.168.77.102/24"},
		Gateway:            &antrea.Gateway{Port: gateway, Mac: mac(1), Addresses: addresses(1)},
		Tunnel:             &antrea.Tunnel{Port: tunnel},
	}
}

// The desired state: all that this Node's switch is to know. Any order will do.
func objects() []*antrea.Object {
	var all []*antrea.Object
	for _, p := range pods {
		all = append(all, &antrea.Object{Object: &antrea.Object_Pod{Pod: &antrea.Pod{
			Name: "default/" + p.name, Port: p.port, Addresses: addresses(p.number), Mac: mac(p.number),
		}}})
	}
	service := &antrea.Service{
		Name:       "default/web",
		ClusterIps: []string{"10.96.0.80", "fd00:96::80"},
		Ports:      []*antrea.ServicePort{{Name: "http", Protocol: antrea.Protocol_PROTOCOL_TCP, Port: servicePort}},
	}
	endpoints := &antrea.Endpoints{Service: "default/web", Port: "http"}
	for _, address := range addresses(web) {
		endpoints.Endpoints = append(endpoints.Endpoints, &antrea.Endpoint{Address: address, Port: webPort, Node: "example-node", Ready: true})
	}
	// Only `client` may speak to `web`, and only there.
	applied := &antrea.AppliedToGroup{Name: "app=web", Pods: []string{"default/web"}}
	clients := &antrea.AddressGroup{
		Name:    "app=client",
		Members: []*antrea.GroupMember{{Member: &antrea.GroupMember_Pod{Pod: "default/client"}}},
	}
	policy := &antrea.NetworkPolicy{
		Name:            "np:default/web",
		Kind:            antrea.PolicyKind_POLICY_KIND_K8S,
		AppliedTo:       []string{"app=web"},
		IsolatesIngress: true,
		Rules: []*antrea.Rule{{
			Id:        "from-client",
			Direction: antrea.Direction_DIRECTION_INGRESS,
			Peer:      &antrea.RulePeer{AddressGroups: []string{"app=client"}},
			Ports:     []*antrea.PortMatch{{Protocol: antrea.Protocol_PROTOCOL_TCP, Port: webPort}},
		}},
	}
	return append(all,
		&antrea.Object{Object: &antrea.Object_Service{Service: service}},
		&antrea.Object{Object: &antrea.Object_Endpoints{Endpoints: endpoints}},
		&antrea.Object{Object: &antrea.Object_AppliedToGroup{AppliedToGroup: applied}},
		&antrea.Object{Object: &antrea.Object_AddressGroup{AddressGroup: clients}},
		&antrea.Object{Object: &antrea.Object_NetworkPolicy{NetworkPolicy: policy}})
}

// Makes the bridge, says what the Node is, and syncs all objects: one transaction, which opens the gate.
func apply(ctx context.Context, conn *grpc.ClientConn) error {
	if err := makeBridge(ctx, conn); err != nil {
		return err
	}
	node, err := antrea.NewNodeServiceClient(conn).Initialize(ctx, &antrea.InitializeRequest{Node: theNode(), Round: 1})
	if err != nil {
		return err
	}
	fmt.Printf("node: %d tables\n", len(node.Tables))
	stream, err := antrea.NewSyncServiceClient(conn).Sync(ctx)
	if err != nil {
		return err
	}
	wanted := objects()
	for _, request := range []*antrea.SyncRequest{
		{Begin: &antrea.SyncBegin{Round: 1}},
		{Objects: wanted},
		{Commit: &antrea.SyncCommit{Objects: uint64(len(wanted))}},
	} {
		// What went wrong says CloseAndRecv; of Send it is only "EOF".
		if err := stream.Send(request); err != nil && err != io.EOF {
			return err
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	gate := map[bool]string{true: "open", false: "shut"}[answer.GateOpen]
	fmt.Printf("sync: %v, %d flows, gate %s\n", answer.Result.Counts, answer.Result.FlowsChanged, gate)
	// An object that was refused is no status of gRPC: the answer says which, and why.
	for _, status := range answer.Result.Statuses {
		for _, problem := range status.Problems {
			fmt.Printf("  %s: %s %s: %s\n", status.Object.Name, problem.Code, problem.Field, problem.Reason)
		}
	}
	if !answer.Result.Applied || !answer.GateOpen {
		return errors.New("the switch does not forward by what was said")
	}
	return nil
}

// What Pods sent, which endpoints were chosen, what rules allowed.
func statistics(ctx context.Context, conn *grpc.ClientConn) error {
	for _, list := range []func(context.Context, *grpc.ClientConn) error{listPods, listServices, listPolicies} {
		if err := list(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func listPods(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := antrea.NewPodServiceClient(conn).ListPods(ctx, &antrea.ListPodsRequest{})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if err != nil {
			return unlessEnd(err)
		}
		for _, state := range part.Pods {
			policies := strings.Join(state.Policies, ", ")
			if policies == "" {
				policies = "none"
			}
			fmt.Printf("pod %s: %d packets sent; policies: %s\n", state.Pod.Name, state.Sent.GetPackets(), policies)
		}
	}
}

func listServices(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := antrea.NewProxyServiceClient(conn).ListServices(ctx, &antrea.ListServicesRequest{})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if err != nil {
			return unlessEnd(err)
		}
		for _, state := range part.Services {
			for _, port := range state.Ports {
				for _, each := range port.Endpoints {
					at := net.JoinHostPort(each.Endpoint.Address, fmt.Sprint(each.Endpoint.Port))
					fmt.Printf("service %s: %s chosen %d times\n", state.Service.Name, at, each.Chosen.GetPackets())
				}
			}
		}
	}
}

func listPolicies(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := antrea.NewNetworkPolicyServiceClient(conn).ListNetworkPolicies(ctx, &antrea.ListNetworkPoliciesRequest{})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if err != nil {
			return unlessEnd(err)
		}
		for _, state := range part.Policies {
			for _, rule := range state.Rules {
				counted := rule.Statistics
				fmt.Printf("policy %s, rule %s: %d new connections, %d packets\n", state.Policy.Name, rule.Rule.Id, counted.GetNewPackets(), counted.GetPackets())
			}
		}
	}
}

// A stream's end is no error.
func unlessEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// Messages as bytes. Newer gRPC does so by itself; Debian's knows older generated code only.
type codec struct{}

func (codec) Marshal(message interface{}) ([]byte, error) {
	return proto.Marshal(message.(proto.Message))
}

func (codec) Unmarshal(data []byte, message interface{}) error {
	return proto.Unmarshal(data, message.(proto.Message))
}

func (codec) Name() string { return "proto" }

// A connection to the switch that listens at the path `socket`.
func connect(ctx context.Context, socket string) (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	// The path is no name of a host, which HTTP/2 wants to have.
	return grpc.DialContext(ctx, socket, grpc.WithInsecure(), grpc.WithBlock(), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dial), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
}

func main() {
	socket := flag.String("socket", "/run/vswitch/vswitch.sock", "where the switch listens")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: example [-socket PATH] apply|statistics")
		flag.PrintDefaults()
	}
	flag.Parse()
	what := map[string]func(context.Context, *grpc.ClientConn) error{"apply": apply, "statistics": statistics}[flag.Arg(0)]
	if what == nil || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := connect(ctx, *socket)
	if err == nil {
		defer conn.Close()
		err = what(ctx, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
