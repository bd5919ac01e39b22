/** `npm run recordings -- FOLDER`: replays recorded answers through the gateway and prints what the client got. */
import { recordingsIn } from './read.ts'
import { replayAll } from './replay.ts'

const [folder, ...more] = process.argv.slice(2)
if (folder === undefined || more.length > 0) {
  process.stderr.write(
    'npm run recordings -- FOLDER\n  FOLDER   with recordings: files like those in fixtures/streams, or cassettes of go-vcr (*.yaml)\n',
  )
  process.exit(2)
}
const from = performance.now()
const { wrong, ...counts } = await replayAll(
  await recordingsIn(folder),
  (line) => void process.stderr.write(`${line}\n`),
)
process.stdout.write(
  `${JSON.stringify({ ...counts, wrong: wrong.length })} in ${((performance.now() - from) / 1000).toFixed(1)} s\n`,
)
for (const line of wrong.slice(0, 50)) process.stdout.write(`wrong: ${line}\n`)
process.exitCode = wrong.length === 0 ? 0 : 1
