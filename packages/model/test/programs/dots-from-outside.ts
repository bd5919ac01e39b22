/** A model in its own process that sends a dot every 20 ms, forty times, and then the proper end. */
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { finish, role, text } from '../../../../test/kit/openai-frames.ts'
import { head, lastChunk, pause } from '../../../../test/kit/plays.ts'

const dots = Array.from({ length: 40 }, () => [text('.'), pause(20)]).flat()
const model = await startModelServer([[head(), role, ...dots, finish('stop'), lastChunk]])
process.stdout.write(`${model.url}\n`)
process.stdin.on('end', () => process.exit(0)).resume()
