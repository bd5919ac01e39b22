/**
 * Runs in the network of a box: makes the sockets there, hands them to the runner, and ends. Arguments: `dns`, or a port. A port
 * is opened for IPv4 and, if there is IPv6, for that too.
 */
import dgram from 'node:dgram'
import { once } from 'node:events'
import net from 'node:net'

for (const word of process.argv.slice(2)) {
  if (word === 'dns') await giveDns()
  else for (const host of ['0.0.0.0', '::']) await givePort(Number(word), host)
}
process.disconnect()

async function giveDns() {
  const socket = dgram.createSocket('udp4')
  socket.bind({ port: 53, address: '127.0.0.1', exclusive: true })
  try {
    await once(socket, 'listening')
    await give({ kind: 'dns' }, socket)
    socket.close()
  } catch (error) {
    await give({ failed: `dns: ${String(error)}` })
  }
}

async function givePort(port, host) {
  const server = net.createServer()
  server.listen({ port, host, ipv6Only: host === '::', exclusive: true })
  try {
    await once(server, 'listening')
    await give({ kind: 'port', port }, server)
    server.close()
  } catch (error) {
    if (host !== '::') await give({ failed: `port ${port}: ${String(error)}` })
  }
}

function give(message, handle) {
  return new Promise((resolve) => {
    process.send(message, handle, { keepOpen: false }, () => resolve(undefined))
  })
}
