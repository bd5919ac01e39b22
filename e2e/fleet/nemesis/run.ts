/** `npm run fleet`: random failures of a whole fleet on this machine, or those of a script, and what the checker found. */
import { parseArgs } from 'node:util'
import { hasSandbox } from '../../breakfall.ts'
import { checkedLine, isKept } from './check.ts'
import { play, randomScript } from './play.ts'
import { WORDS_HELP } from './script.ts'

const USAGE = `npm run fleet -- [--seed N] [--actions N] [--script WORDS] [--turns N] [--store URL] [--isolation LEVEL] [--json]
  --seed N          chooses the actions; the same number chooses the same ones (default: a new one)
  --actions N       how many (12)
  --script WORDS    these actions: 'k1 3s m2 p'
  --turns N         how many scripted turns to start (12)
  --store URL       an empty PostgreSQL database (default: a new PostgreSQL)
  --isolation LEVEL bwrap or process (default: bwrap if it is installed)
Words:
${WORDS_HELP}`

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    actions: { type: 'string', default: '12' },
    script: { type: 'string' },
    turns: { type: 'string', default: '12' },
    store: { type: 'string' },
    isolation: { type: 'string', default: hasSandbox ? 'bwrap' : 'process' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (values.help || (values.seed !== undefined && values.script !== undefined)) {
  process.stderr.write(`${USAGE}\n`)
  process.exit(2)
}

const stop = new AbortController()
process.once('SIGINT', () => stop.abort()) // the turns end and are checked; again ends at once
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const script = values.script ?? randomScript(seed, Number(values.actions))
const say = (text: string): void => void (values.json ? process.stderr : process.stdout).write(`${text}\n`)
say(values.script === undefined ? `npm run fleet -- --seed ${seed} --actions ${values.actions}: ${script}` : script)
const checked = await play(script, {
  isolation: values.isolation === 'process' ? 'process' : 'bwrap',
  turns: Number(values.turns),
  store: values.store,
  onAction: say,
  signal: stop.signal,
})
process.stdout.write(`${values.json ? JSON.stringify(checked) : checkedLine(checked)}\n`)
process.exitCode = isKept(checked) ? 0 : 1
