/**
 * A gateway in a separate process that reports on request what memory it uses after a collection, and how long its event loop was blocked
 * at most, in CPU time of its thread: on a busy machine, the time on the wall is mostly that of others. Run with `--expose-gc`.
 */
import { startGateway } from '@breakfall/gateway'

const [, , upstream = '', hold = 'auto'] = process.argv
const gateway = await startGateway({ upstream, hold: hold as 'auto', logger: false })
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
let [last, most] = [cpuMs(), 0]
setInterval(() => {
  const now = cpuMs()
  most = Math.max(most, now - last)
  last = now
}, 2)
const used = (): number => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
process.on('message', () => {
  const blockedMs = most
  process.send?.({ blockedMs, usedBytes: used() })
  last = cpuMs() // the collection was ours
})
process.send?.({ url: gateway.url, usedBytes: used() })
