/**
 * Checks the model of leases, epochs and the runner's fence (`model/lease.pml`) with Spin: `npm run model`. Installs nothing: it needs
 * Debian's `spin` and a C compiler. `--deep` adds the large runs (4 GB of memory, minutes).
 *
 * A run is one of two kinds: the whole model, which must have no error; or the model without one mechanism, which must break the
 * property that the mechanism is for. A left-out mechanism that breaks nothing means that the model does not test it.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MODEL = fileURLToPath(new URL('../model/lease.pml', import.meta.url))

/** `breaks` is the assertion that has to fail. */
const RUNS = [
  { name: 'whole, 2 daemons', flags: [] },
  { name: 'progress, 2 daemons', flags: ['-DLIVE', '-DLOSSES=0'], isLive: true },
  { name: 'without the epoch in the store', flags: ['-DNO_EPOCH'], breaks: /holder\[|epoch==my|headEpoch<=my/ },
  { name: 'without the seq in the store', flags: ['-DNO_SEQ'], breaks: /head!=|head==none|started/ },
  { name: 'without the epoch at the runner', flags: ['-DNO_RUNNER'], breaks: /fencedAt|notrunSaid/ },
  { name: 'a fence without a box is forgotten', flags: ['-DNO_TOMB'], breaks: /fencedAt|notrunSaid/ },
  { name: 'a kill of an unknown exec is forgotten', flags: ['-DNO_BURN'], breaks: /notrunSaid|started/ },
  {
    name: 'a new owner decides by a read and does not fence the runner',
    flags: ['-DLOOK', '-DNO_FENCE'],
    breaks: /notrunSaid|started/,
  },
  { name: 'a new owner decides by a read, behind its fence', flags: ['-DLOOK'] },
  { name: 'a repeated append is not recognised: safe, it only costs a takeover', flags: ['-DNO_IDEM'] },
  {
    name: 'a dead owner is never declared dead: no progress',
    flags: ['-DLIVE', '-DNO_DECLARE', '-DLOSSES=0'],
    isLive: true,
    breaks: /acceptance cycle/,
  },
]

const DEEP = [
  { name: 'whole, 3 daemons', flags: ['-DN=3'] },
  { name: 'whole, 2 daemons, 2 crashes, 2 doubts', flags: ['-DCRASHES=2', '-DDOUBTS=2'] },
]

for (const program of ['spin', 'cc']) {
  if (spawnSync(program, ['-V']).error === undefined) continue
  console.error(`${program} is missing. On Debian: apt-get install spin gcc. Nothing was checked.`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'breakfall-model-'))
let failed = 0
try {
  copyFileSync(MODEL, join(folder, 'lease.pml'))
  for (const run of process.argv.includes('--deep') ? [...RUNS, ...DEEP] : RUNS) {
    const from = performance.now()
    const said = check(run)
    const seconds = ((performance.now() - from) / 1_000).toFixed(1)
    const states = /([\d.e+]+) states, stored/.exec(said)?.[1] ?? '?'
    const error = /pan:\d+: (.*?)(?: \(at depth|\n)/.exec(said)?.[1]
    const isComplete = /errors: \d/.test(said) && !/out of memory|max search depth too small/.test(said)
    const isGood =
      isComplete && (run.breaks === undefined ? error === undefined : error !== undefined && run.breaks.test(error))
    if (!isGood) failed += 1
    console.log(
      `${isGood ? 'ok  ' : 'FAIL'} ${run.name}: ${error === undefined ? '0 errors' : `broken, ${error}`} (${states} states, ${seconds} s)`,
    )
    if (!isGood) console.log(said.split('\n').slice(0, 20).join('\n'))
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
console.log(failed === 0 ? 'The model holds, and each mechanism is needed.' : `${failed} runs are not as expected.`)
process.exit(failed === 0 ? 0 : 1)

function check({ flags, isLive = false }) {
  const inFolder = { cwd: folder, encoding: 'utf8' }
  execFileSync('spin', [...flags, '-a', 'lease.pml'], inFolder)
  const kind = isLive ? ['-DNFAIR=4'] : ['-DSAFETY']
  execFileSync('cc', ['-O2', '-w', ...kind, '-DCOLLAPSE', '-o', 'pan', 'pan.c'], inFolder)
  const how = isLive ? ['-a', '-f', '-m400000'] : ['-m400000']
  return spawnSync('./pan', how, { ...inFolder, maxBuffer: 64 * 1024 * 1024 }).stdout
}
