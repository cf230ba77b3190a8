// Package client connects to a vswitch. vswitch.io/api/vswitch/v1 and vswitch.io/api/antrea/v1 have
// the messages and stubs.
package client

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Socket is where vswitchd listens unless configured otherwise.
const Socket = "/run/vswitch/vswitch.sock"

// messageMax is in bytes. Answers of large switches are longer than the default of gRPC.
const messageMax = 64 << 20

// codec makes bytes of messages. Newer gRPC does so by itself; 1.33 knows older generated code only.
type codec struct{}

func (codec) Marshal(message interface{}) ([]byte, error) {
	return proto.Marshal(message.(proto.Message))
}

func (codec) Unmarshal(data []byte, message interface{}) error {
	return proto.Unmarshal(data, message.(proto.Message))
}

func (codec) Name() string { return "proto" }

// Connect returns a connection to the switch that listens at the path socket. "" means
// $VSWITCH_SOCKET, else Socket. The connection comes up with its first call, and again after a
// restart of the switch. More options of gRPC may follow.
func Connect(ctx context.Context, socket string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if socket == "" {
		socket = os.Getenv("VSWITCH_SOCKET")
	}
	if socket == "" {
		socket = Socket
	}
	dial := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	options := []grpc.DialOption{
		grpc.WithInsecure(), // a unix socket; file rights protect it
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageMax), grpc.ForceCodec(codec{})),
	}
	return grpc.DialContext(ctx, "passthrough:///"+socket, append(options, more...)...)
}
