/** `npm run sim -- --seed N`: one universe, or many. */
import { parseArgs } from 'node:util'
import { planOf } from './plan.ts'
import { runUniverse } from './universe.ts'
import { REAL } from './host/time.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
    journal: { type: 'boolean', default: false },
  },
})

const first = Number(values.seed ?? 1)
const from = REAL.hrtime()
let [steps, faults, turns] = [0, 0, 0]
for (let nr = 0; nr < Number(values.count); nr += 1) {
  const seed = String(first + nr)
  const trace: string[] = []
  const outcome = await runUniverse(planOf(seed), {
    onStep: ({ nr: step, at, process: who, label }) => {
      trace.push(`${step} ${at} ${who} ${label}`)
      if (trace.length > 400) trace.splice(0, 200)
    },
    onEvent: values.journal ? (line) => console.log(line) : undefined,
    onLog: values.log ? (line) => console.log(line) : undefined,
  })
  steps += outcome.steps
  faults += outcome.faults
  turns += outcome.turns
  if (values.count === '1' || outcome.broken !== undefined)
    console.log(`seed ${seed}: hash ${outcome.hash}, ${outcome.steps} steps, ${outcome.turns} turns, ${outcome.faults} faults, ${Math.round(outcome.virtualMs / 1000)} s`)
  if (outcome.broken !== undefined) {
    if (values.trace) console.log(trace.slice(-60).join('\n'))
    console.log(`  ${outcome.broken.message.split('\n').filter((line) => !line.includes('node:internal')).slice(0, 9).join('\n')}`)
    process.exitCode = 1
  }
}
const seconds = Number(REAL.hrtime() - from) / 1e9
console.log(`${steps} steps, ${turns} turns, ${faults} faults in ${seconds.toFixed(1)} s`)
