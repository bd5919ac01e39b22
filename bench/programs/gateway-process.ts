/** A gateway in a process of its own, which tells the CPU time it has used whenever it is asked. */
import { startGateway } from '@breakfall/gateway'

const gateway = await startGateway({ upstream: process.argv[2] ?? '', logger: false })
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMs: (user + system) / 1000, heapBytes: process.memoryUsage().heapUsed })
})
process.send?.({ url: gateway.url })
