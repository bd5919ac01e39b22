/** A gateway in a separate process that reports on request how long its event loop was blocked at most. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { startGateway } from '@breakfall/gateway'

const [, , upstream = '', hold = 'auto'] = process.argv
const gateway = await startGateway({ upstream, hold: hold as 'auto', logger: false })
const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()
process.on('message', () => process.send?.({ blockedMs: delay.max / 1e6 }))
process.send?.({ url: gateway.url })
