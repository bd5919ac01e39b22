/** A gateway in a separate process that reports the CPU time it has used on request. */
import { startGateway } from '@breakfall/gateway'

const gateway = await startGateway({ upstream: process.argv[2] ?? '', logger: false })
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMs: (user + system) / 1000, heapBytes: process.memoryUsage().heapUsed })
})
process.send?.({ url: gateway.url })
