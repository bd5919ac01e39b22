/** `npm run sim -- [--seed N] [--seconds S] [--mutants] [--night] …`: the real engine under a simulated world. See `sim/main.ts`. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
const other = ['mutants', 'night'].find((name) => process.argv.includes(`--${name}`))
const program = other === undefined ? ['--import', './sim/host/install.ts', 'sim/main.ts'] : [`sim/${other}.ts`]
process.exitCode = step(node, [
  '--disable-warning=ExperimentalWarning',
  ...program.map((part) => (part.startsWith('sim/') ? join(...part.split('/')) : part)),
  ...process.argv.slice(2).filter((argument) => argument !== `--${other}`),
])
