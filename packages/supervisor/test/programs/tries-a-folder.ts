// Tells why nothing can be started in a folder.
import { preflight } from '../../src/preflight.ts'

const failure = await preflight({ command: 'true', cwd: process.argv[2] ?? '', env: process.env })
console.log(JSON.stringify([failure?.reason, failure?.detail]))
