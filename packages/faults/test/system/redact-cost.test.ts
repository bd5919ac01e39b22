/** The search for secrets stays linear for any text. Measured in CPU time, over every hostile pattern we know. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { redact } from '@breakfall/faults'

test('the work for hostile text is proportional to its length', () => {
  const NAMES = ['authorization: ', 'authorization:', 'cookie', 'token', '"password', 'bearer ', 'basic ', 'api_key']
  const PIECES =
    'eyJ- eyJa. sk- sk_sk- hf_ AIza- xoxb- a:// a://b: ?key &token= %3Fkey \\ \\" "\\" \' [" -----END a- a_ aB = : @'.split(
      ' ',
    )
  const BLOCKS = ['-----BEGIN PRIVATE KEY-----', '-----BEGIN A', '-----END ', ' ']
  const HOSTILE = [...NAMES, ...NAMES.map((name) => name + ' '.repeat(50)), ...PIECES, ...BLOCKS]
  for (const unit of HOSTILE) {
    for (const opening of ['', 'token="', 'authorization:', 'http://']) {
      const cost = (chars: number): number => {
        const text = (opening + unit.repeat(Math.ceil(chars / unit.length))).slice(0, chars)
        let best = Infinity
        for (let run = 0; run < 3; run += 1) {
          const from = process.cpuUsage()
          redact(text)
          const { user, system } = process.cpuUsage(from)
          best = Math.min(best, user + system)
        }
        return best
      }
      // Quadratic work would be 16 times as much for 4 times the text. The floor keeps small noise out of the ratio.
      const [small, large] = [cost(16_000), cost(64_000)]
      assert.ok(large < 10 * Math.max(small, 4_000), `${JSON.stringify(opening + unit)}: ${small} µs, then ${large} µs`)
    }
  }
})
