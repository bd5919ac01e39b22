// Prints why nothing can start in these folders.
import { preflight } from '../../src/preflight.ts'

const tries = process.argv.slice(2).map((cwd) => preflight({ command: 'true', cwd, env: process.env }))
console.log(JSON.stringify((await Promise.all(tries)).map((failure) => [failure?.reason, failure?.detail])))
