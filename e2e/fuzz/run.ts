/** `npm run fuzz`: streams with new seeds until the time is up, or one seed again. */
import { parseArgs } from 'node:util'
import type { RelayApiName } from '@breakfall/model'
import { APIS } from './apis.ts'
import { fuzz } from './fuzz.ts'
import { HISTORY_APIS } from './histories.ts'
import { runHistory, shrunkHistory, toldRun } from './repairs.ts'
import { makeCase } from './generate.ts'
import { Rig, type Run } from './rig.ts'
import { shrink } from './shrink.ts'
import { told } from './told.ts'

const USAGE = `npm run fuzz -- [--minutes N] [--streams N] [--seed S] [--from S] [--api NAME] [--no-shrink]
  --minutes N   how long (1)
  --streams N   at most so many
  --seed S      replays one stream, shrinks it if it is wrong, and prints it
  --from S      the first seed (default: a new one)
  --histories   conversations against the repair of requests, instead of streams
  --api NAME    only ${APIS.map(({ name }) => name).join(', ')}`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    streams: { type: 'string' },
    seed: { type: 'string' },
    from: { type: 'string' },
    api: { type: 'string' },
    'no-shrink': { type: 'boolean', default: false },
    histories: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const api: RelayApiName | undefined = APIS.find(({ name }) => name === values.api)?.name
if (values.help || (values.api !== undefined && api === undefined)) {
  process.stderr.write(`${USAGE}\n`)
  process.exit(2)
}
process.on('unhandledRejection', (reason) => {
  process.stderr.write(
    `an unhandled rejection, which must not happen: ${reason instanceof Error ? reason.stack : String(reason)}\n`,
  )
  process.exit(1)
})

const apiFlag = api === undefined ? '' : ` --api ${api}`
await using rig = await Rig.start()
if (values.histories) process.exitCode = histories()
else process.exitCode = values.seed === undefined ? await many() : await again(Number(values.seed))

/** In this process, because a repair is pure. `histories.test.ts` sends some through a gateway. */
function histories(): number {
  const only = HISTORY_APIS.find((name) => name === api)
  if (values.seed !== undefined) {
    const run = runHistory(Number(values.seed), only)
    process.stdout.write(`${toldRun(run.wrong === undefined ? run : shrunkHistory(Number(values.seed), only))}\n`)
    return run.wrong === undefined ? 0 : 1
  }
  const from = Number(values.from ?? Date.now() % 1_000_000_000)
  const until = performance.now() + Number(values.minutes) * 60_000
  const most = values.streams === undefined ? Number.MAX_SAFE_INTEGER : Number(values.streams)
  const tally: Record<string, number> = { wrong: 0 }
  process.stdout.write(`seeds from ${from}\n`)
  for (let seed = from; seed < from + most && performance.now() < until; seed++) {
    const { made, end, wrong } = runHistory(seed, only)
    const key = wrong === undefined ? `${made.api} ${seed % 2 === 0 ? 'lied about' : end}` : 'wrong'
    tally[key] = (tally[key] ?? 0) + 1
    if (wrong !== undefined && (tally['wrong'] ?? 0) <= 5)
      process.stdout.write(`${made.api}: ${wrong}: npm run fuzz -- --histories --seed ${seed}${apiFlag}\n`)
  }
  process.stdout.write(`${JSON.stringify(tally)}\n`)
  return tally['wrong'] === 0 ? 0 : 1
}

async function again(seed: number): Promise<number> {
  const run = await rig.run(makeCase({ seed, api }))
  process.stdout.write(`${told(run)}\n`)
  if (run.verdict.wrong === undefined) return 0
  await smaller(seed, run)
  return 1
}

async function many(): Promise<number> {
  const from = Number(values.from ?? Date.now() % 1_000_000_000)
  const [startedAt, until] = [performance.now(), performance.now() + Number(values.minutes) * 60_000]
  process.stdout.write(`seeds from ${from}\n`)
  const found: { readonly seed: number; readonly run: Run }[] = []
  const tally = await fuzz(rig, {
    seed: from,
    streamsMax: values.streams === undefined ? Number.MAX_SAFE_INTEGER : Number(values.streams),
    isOver: () => performance.now() > until,
    api,
    onWrong: (seed, run) => {
      found.push({ seed, run })
      if (found.filter((one) => kindOf(one) === kindOf({ run })).length <= 3)
        process.stdout.write(
          `stream ${seed - from + 1}: ${run.made.api}: ${run.verdict.wrong?.kind}: npm run fuzz -- --seed ${seed}${apiFlag}\n`,
        )
    },
  })
  const seconds = (performance.now() - startedAt) / 1_000
  process.stdout.write(
    `${JSON.stringify(tally)} in ${seconds.toFixed(1)} s, ${Math.round(tally.streams / seconds)} a second\n`,
  )
  for (const [kind, { length }] of Map.groupBy(found, kindOf)) process.stdout.write(`  ${length} × ${kind}\n`)
  for (const [, [first]] of Map.groupBy(found, kindOf)) if (first !== undefined) await smaller(first.seed, first.run)
  return found.length === 0 ? 0 : 1
}

async function smaller(seed: number, run: Run): Promise<void> {
  if (values['no-shrink']) return
  const shrunk = await shrink(rig, seed, api, run.verdict.wrong?.kind ?? '')
  const title = shrunk === undefined ? 'did not happen again; as it was' : `made smaller in ${shrunk.runs} runs`
  process.stdout.write(`\n── npm run fuzz -- --seed ${seed}${apiFlag} (${title})\n${told(shrunk?.run ?? run)}\n`)
}

function kindOf({ run }: { readonly run: Run }): string {
  return `${run.made.api}: ${run.verdict.wrong?.kind}`
}
