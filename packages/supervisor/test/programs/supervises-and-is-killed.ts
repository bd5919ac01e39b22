// A supervisor with three children and their grandchildren, one of which ignores SIGTERM and one of which leaves its session.
import path from 'node:path'
import { supervise } from '../../src/index.ts'

const here = import.meta.dirname
const [how = 'wait', stateDir] = process.argv.slice(2)
const names = ['ignores-sigterm.sh', 'keeps-an-escapee.sh', 'never-gets-ready.sh']
const children = names.map((name) =>
  supervise({ command: path.join(here, name), stdin: 'ignore', ...(stateDir === undefined ? {} : { stateDir }) }),
)
await Promise.all(children.map(async (child) => child.start()))
setTimeout(() => {
  console.log(JSON.stringify({ pids: children.map((child) => child.pid) }))
  if (how === 'throw') throw new Error('an uncaught exception')
  if (how === 'exit') process.exit(0)
}, 300)
