/**
 * One PostgreSQL for all test files of a run. Test files connect to its socket as long as they need it; when the last of them has been
 * gone for a while, it ends and removes its folder. Usage: `node postgres-server.ts FOLDER`.
 */
import { createServer } from 'node:net'
import { join } from 'node:path'
import { removeFolder } from './folder.ts'
import { startCluster } from './postgres-cluster.ts'

const LINGER_MS = 10_000 // until the next test file of the run needs it

const [, , folder = ''] = process.argv
const cluster = await startCluster(join(folder, 'cluster'))
let users = 0
let leaving: NodeJS.Timeout | undefined

const server = createServer((socket) => {
  users += 1
  clearTimeout(leaving)
  socket.write(`${cluster.url('postgres')}\n`)
  socket.on('error', () => socket.destroy()) // the test file was killed
  socket.on('close', () => {
    users -= 1
    if (users === 0) leaving = setTimeout(() => void leave(), LINGER_MS)
  })
})
server.listen(join(folder, 'socket'))
leaving = setTimeout(() => void leave(), LINGER_MS)

async function leave(): Promise<void> {
  server.close()
  await cluster.stop('immediate')
  removeFolder(folder)
  process.exit(0)
}
