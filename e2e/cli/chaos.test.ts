/** `breakfall chaos`: the fault proxy for your own agent, with a live table of the injected faults. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Place } from '../breakfall.ts'

const ASK = {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'rehearsal/echo', stream: true, messages: [{ role: 'user', content: 'hello' }] }),
}

test('the fault proxy shows each fault in a table as it happens, and prints a summary when it stops', async () => {
  await using place = new Place()
  for (const json of [false, true]) {
    const running = place.start(['chaos', '--rehearsal', '--plan', 'at=1.1:status:429', ...(json ? ['--json'] : [])])
    const url = await listening(running.child.stdout)
    const statuses: number[] = []
    for (let tries = 0; tries < 2; tries++) statuses.push((await fetch(`${url}/chat/completions`, ASK)).status)
    assert.deepEqual(statuses, [429, 200])
    running.child.kill('SIGINT')
    const { code, lines, json: values } = await running.ended
    assert.equal(code, 0)
    if (json) {
      assert.equal(values.find(({ event }) => event === 'injection')?.['outcome'], 'injected')
      assert.deepEqual([values.at(-1)?.['requests'], values.at(-1)?.['injected']], [2, 1])
    } else {
      assert.match(
        lines.join('\n'),
        /^time +request +attempt +fault +after\n\S+ +POST \/v1\/chat\/completions #1 +1 +status status=429/m,
      )
      assert.match(lines.join('\n'), /2 requests, 1 fault injected\n +1 status$/)
    }
  }
})

/** The first address in its output. */
async function listening(stdout: NodeJS.ReadableStream | null): Promise<string> {
  let text = ''
  return new Promise((resolve) =>
    stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      const [found] = /http:\/\/127\.0\.0\.1:\d+\/v1/.exec(text) ?? []
      if (found !== undefined) resolve(found)
    }),
  )
}
