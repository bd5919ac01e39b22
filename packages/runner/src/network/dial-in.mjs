/**
 * Runs in the network of a box: connects to a port there when the runner asks, and hands it the connected socket. No byte is
 * read here. Ends with the runner.
 */
import net from 'node:net'

process.on('message', ({ id, port }) => connect(id, port, ['127.0.0.1', '::1']))
process.on('disconnect', () => process.exit())

function connect(id, port, [host, ...others]) {
  const socket = net.connect({ host, port })
  socket.pause() // what the server says first is for whoever asked
  socket.once('connect', () => process.send({ id }, socket, { keepOpen: false }))
  socket.once('error', (error) => {
    if (others.length > 0) connect(id, port, others)
    else process.send({ id, failed: String(error.code ?? error) })
  })
}
