/** A model in its own process that sends a dot every 20 ms, forty times, and then the proper end. */
import { finish, head, lastChunk, pause, role, startFakeModel, text } from '../fake-model.ts'

const dots = Array.from({ length: 40 }, () => [text('.'), pause(20)]).flat()
const model = await startFakeModel([[head(), role, ...dots, finish('stop'), lastChunk]])
process.stdout.write(`${model.url}\n`)
process.stdin.on('end', () => process.exit(0)).resume()
