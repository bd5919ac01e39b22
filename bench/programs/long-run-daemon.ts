/** A daemon in a separate process that runs one long turn and reports its memory and CPU time. */
import { startDaemon } from '@breakfall/daemon'
import { tryAnswer } from '@breakfall/model'

const [stateDir = '', baseUrl = '', workspace = ''] = process.argv.slice(2)
/** CPU time of the process at each request to the model. */
const cpuMs: number[] = []

function cpuNow(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

const daemon = await startDaemon({
  stateDir,
  model: { baseUrl, name: 'bench' },
  runner: { allowWorkspace: [workspace] },
  policy: { stepsMax: 10_000 },
  logLevel: 'silent',
  tryAnswer: (request, options) => {
    cpuMs.push(cpuNow())
    return tryAnswer(request, options)
  },
})
const { sessions } = daemon
const session = await sessions.create({ box: { workspace } })
let peak = 0
const sampled = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 50)
const { turnId } = await sessions.prompt(session.id, { prompt: 'do all the steps' }, undefined)
while ((await sessions.turn(turnId)).endedAt === null) await new Promise((resolve) => setTimeout(resolve, 50))
clearInterval(sampled)
const { state, steps } = await sessions.turn(turnId)
await daemon.close({ stopRunner: true })
process.send?.({ state, steps, peakBytes: peak, cpuMs }, () => process.exit(0))
