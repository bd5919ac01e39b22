/**
 * `npm start`: sets up what is missing and runs one turn. Arguments after `--` go to `breakfall run`, unless the first one is a
 * command.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { become } from './become.mjs'
import { root, setUp } from './setup.mjs'

const node = setUp({ dev: false })
// npm runs scripts in the checkout; the user's work belongs in the folder they are in.
const cwd = process.env.INIT_CWD ?? process.cwd()
const words = ['npm-start', ...process.argv.slice(2)] // packages/cli/src/command-line/npm-start.ts tells commands from prompts
become(node, [join(root, 'packages/cli/src/main.ts'), ...words], { cwd, parents: parents() })

// ---- details ----

/** npm and its shell. A signal to npm ends only the shell, and the program would stay behind. */
function parents() {
  if (process.env.npm_lifecycle_event !== 'start') return []
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
    return [process.ppid, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]
  } catch {
    return [process.ppid] // no Linux
  }
}
