/**
 * `npm start`: sets up what is missing and runs one turn to its end. Arguments after `--` go to `breakfall run`; the name of another
 * command, alone or with flags, is that command.
 */
import { join } from 'node:path'
import { become } from './become.mjs'
import { root, setUp } from './setup.mjs'

const node = setUp({ dev: false })
// npm runs scripts in the checkout; the work belongs to the folder that the person is in.
const cwd = process.env.INIT_CWD ?? process.cwd()
const COMMANDS = ['up', 'doctor', 'sessions', 'chaos', 'gateway', 'runner', 'explain', 'config', 'help']
const [first, ...others] = process.argv.slice(2)
const isCommand = COMMANDS.includes(first) && (others[0] ?? '-').startsWith('-') // a prompt is more than one of these words
const command = isCommand ? [first] : first === undefined ? ['run'] : ['run', first]
become(node, [join(root, 'packages/cli/src/main.ts'), ...command, ...others], cwd)
