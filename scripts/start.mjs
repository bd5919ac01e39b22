/**
 * `npm start`: sets up what is missing and runs one turn. Arguments after `--` go to `breakfall run`, unless they are the name of
 * another command, alone or followed by flags.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { become } from './become.mjs'
import { root, setUp } from './setup.mjs'

const node = setUp({ dev: false })
// npm runs scripts in the checkout; the user's work belongs in the folder they are in.
const cwd = process.env.INIT_CWD ?? process.cwd()
const [first, ...others] = process.argv.slice(2)
const command = isCommand(first, others) ? [first] : first === undefined ? ['run'] : ['run', first]
become(node, [join(root, 'packages/cli/src/main.ts'), ...command, ...others], { cwd, parents: parents() })

// ---- details, in the order they are used above ----

/** The name of a command with more words than it takes is a prompt. */
function isCommand(name, words) {
  const ALONE =
    'up open demo doctor sessions prune chaos gateway runner trial explain config mcp service completion fleet daemons runners store uninstall help'
  const WITH_A_NAME = 'login logout show tail output cancel resume approve rm export help'
  const [word = '-', ...more] = words
  if (ALONE.split(' ').includes(name) && word.startsWith('-')) return true
  return WITH_A_NAME.split(' ').includes(name) && (more[0] ?? '-').startsWith('-')
}

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
