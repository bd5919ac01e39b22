/**
 * `npm start`: sets up what is missing and runs one turn. Arguments after `--` go to `breakfall run`, unless they are the name of
 * another command, alone or followed by flags.
 */
import { join } from 'node:path'
import { become } from './become.mjs'
import { root, setUp } from './setup.mjs'

const node = setUp({ dev: false })
// npm runs scripts in the checkout; the user's work belongs in the folder they are in.
const cwd = process.env.INIT_CWD ?? process.cwd()
const COMMANDS = ['up', 'doctor', 'sessions', 'chaos', 'gateway', 'runner', 'explain', 'config', 'help']
const [first, ...others] = process.argv.slice(2)
const isCommand = COMMANDS.includes(first) && (others[0] ?? '-').startsWith('-') // with more words it is a prompt
const command = isCommand ? [first] : first === undefined ? ['run'] : ['run', first]
become(node, [join(root, 'packages/cli/src/main.ts'), ...command, ...others], cwd)
