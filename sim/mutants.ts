/**
 * `npm run sim -- --mutants [--only TEXT]`: breaks the code in one place, and looks for the rule that notices. A mutant that lives has a reason
 * in `mutants.json`, or fails this run.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'

type Mutant = {
  readonly what: string
  readonly file?: string
  readonly from?: string
  readonly to?: string
  /** A runner that is broken in this way, instead of a change of a file. */
  readonly quirk?: string
  /** The plan of the bug that this change brings back: it finds it alone. */
  readonly plan?: string
  /** Why no rule can notice. */
  readonly lives?: string
}

const FOLDER = import.meta.dirname
const { values: given } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '300' },
    count: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
    processes: { type: 'string', default: '2' },
  },
})

const mutants = (JSON.parse(readFileSync(join(FOLDER, 'mutants.json'), 'utf8')) as readonly Mutant[]).filter(
  ({ what }) => what.includes(given.only),
)
const LIVES_SHARE = 10
let failures = 0
const left = mutants[Symbol.iterator]()
await Promise.all(Array.from({ length: Number(given.processes) }, tryAll))
process.exitCode = failures > 0 ? 1 : 0

// ---- details ----

/** Each worker takes the next mutant. */
async function tryAll(): Promise<void> {
  for (const mutant of left) await tryOne(mutant)
}

async function tryOne(mutant: Mutant): Promise<void> {
  const { code, output } = await tried(mutant)
  const rule = /^seed \d+, step \d+: ([^:]*):/m.exec(output)?.[1]
  const after = /^(\d+) universes/m.exec(output)?.[1] ?? '?'
  const isFine =
    code === 1 && rule !== undefined ? mutant.lives === undefined : code === 0 && mutant.lives !== undefined
  if (!isFine) failures += 1
  const found =
    rule === undefined
      ? `${code === 0 ? 'lives' : 'does not run'} (${after} universes)`
      : `found by "${rule}" after ${after} universes`
  process.stdout.write(
    `${isFine ? 'ok  ' : 'FAIL'} ${mutant.what}: ${found}${mutant.lives === undefined ? '' : ` · ${mutant.lives}`}\n`,
  )
  if (rule === undefined && code !== 0) process.stdout.write(`${output.slice(0, 2_000)}\n`)
}

type Tried = { readonly code: number | null; readonly output: string }

/** What broke once is tried first. A mutant with a reason to live is believed sooner. */
async function tried({ file, from, to, quirk, plan, lives }: Mutant): Promise<Tried> {
  const count = Math.ceil(Number(given.count) / (lives === undefined ? 1 : LIVES_SHARE))
  const seeds = ['--seed', given.seed, '--seconds', given.seconds, '--count', `${count}`]
  const universes = plan === undefined ? ['--plans', ...seeds] : ['--plan', join(FOLDER, 'plans', `${plan}.json`)]
  const args = [...universes, '--no-shrink', ...(quirk === undefined ? [] : ['--quirk', quirk])]
  const env = file === undefined ? process.env : { ...process.env, SIM_MUTANT: JSON.stringify({ file, from, to }) }
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--import',
      join(FOLDER, 'host/install.ts'),
      join(FOLDER, 'main.ts'),
      ...args,
    ],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: code as number | null, output: output + errors }
}
