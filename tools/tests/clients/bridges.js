// A client in JavaScript, from the .proto files: adds a bridge, lists bridges. `node bridges.js PROTO_DIRECTORY SOCKET`.
// Its last line is JSON: the version of grpc-js, and the names of the bridges.
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [directory, socket] = process.argv.slice(2);
const definition = loader.loadSync('vswitch/v1/bridge.proto', { includeDirs: [directory], keepCase: true });
const { BridgeService } = grpc.loadPackageDefinition(definition).vswitch.v1;
// Nothing but the path.
const client = new BridgeService(`unix:${socket}`, grpc.credentials.createInsecure());

function call(method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + 20000 }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

async function main() {
  await call('AddBridge', { bridge: { name: 'js0' } });
  const { bridges } = await call('ListBridges', {});
  client.close();
  const names = bridges.map((bridge) => (bridge.config || bridge).name);
  console.log(JSON.stringify({ grpc: require('@grpc/grpc-js/package.json').version, names }));
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
