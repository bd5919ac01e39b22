/** Input: complete, with backpressure if the command does not read, and given up if the client goes silent. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { inProcess, type TestRunner, withoutBwrap } from '../kit.ts'

describe('input', { skip: withoutBwrap }, async () => {
  test('10 MB and EOF arrive completely; a command that exits early causes neither a hang nor a crash', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const bytes = Buffer.alloc(10_000_000, 'abcdefghi\n')
    await runner.call('POST', 'boxes/b1/exec', { execId: 'all', shell: 'wc -c', stdin: 'pipe' })
    assert.equal((await runner.client.writeStdin('b1', 'all', bytes, { eof: true })).execId, 'all')
    await runner.client.waitExec('b1', 'all')
    assert.equal((await runner.client.execOutput('b1', 'all', 'stdout')).toString().trim(), '10000000')
    await runner.call('POST', 'boxes/b1/exec', { execId: 'early', shell: 'head -c 10; exit 2', stdin: 'pipe' })
    const refused = await runner.call('POST', 'boxes/b1/execs/early/stdin', bytes)
    assert.deepEqual([refused.status, refused.json.category], [409, 'exec_finished'])
    const { exit } = await runner.client.waitExec('b1', 'early')
    assert.deepEqual([exit?.cause, exit?.code], ['exited', 2])
    await runner.call('POST', 'boxes/b1/exec', { execId: 'none', shell: 'cat; sleep 0.3' })
    assert.equal((await runner.call('POST', 'boxes/b1/execs/none/stdin', 'x')).status, 400)
  })

  test('a command that does not read slows down its writer and no one else', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'slow',
      shell: 'while [ ! -e go ]; do sleep 0.02; done; wc -c',
      stdin: 'pipe',
    })
    let written = false
    const writing = runner.client
      .writeStdin('b1', 'slow', Buffer.alloc(1_000_000), { eof: true })
      .then(() => (written = true))
    assert.equal((await runner.run('b1', 'echo fine')).stdout, 'fine\n')
    assert.equal(written, false)
    await runner.run('b1', 'touch go')
    await writing
    await runner.client.waitExec('b1', 'slow')
    assert.equal((await runner.client.execOutput('b1', 'slow', 'stdout')).toString().trim(), '1000000')
  })
})

describe('bodies that stall', { skip: withoutBwrap }, async () => {
  test('a stalled upload writes no file, and a stalled writer lets the next one in', async (t) => {
    const runner = await inProcess(t, { bodySilenceMs: 200 })
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', { execId: 'cat', command: ['cat'], stdin: 'pipe' })
    const put = stall(runner, 'PUT', 'boxes/b1/files/half')
    const first = stall(runner, 'POST', 'boxes/b1/execs/cat/stdin')
    for await (const event of runner.client.execEvents('b1', 'cat')) if (event.type === 'stdout') break
    const second = await runner.call('POST', 'boxes/b1/execs/cat/stdin?eof=1', ' second')
    assert.equal(second.status, 200, second.text)
    for (const answer of await Promise.all([put, first]))
      assert.match(answer, /^HTTP\/1.1 400 [^]*did not arrive within 0.2 s/)
    await runner.client.waitExec('b1', 'cat')
    assert.equal((await runner.client.execOutput('b1', 'cat', 'stdout')).toString(), 'first second')
    assert.deepEqual(await runner.client.listFiles('b1', '{*,.*}'), [])
  })

  test('the bytes of twenty parallel writers do not mix', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', { execId: 'cat', command: ['cat'], stdin: 'pipe' })
    const letters = Array.from({ length: 20 }, (_, i) => String.fromCharCode(97 + i))
    const written = await Promise.all(
      letters.map((letter) => runner.call('POST', 'boxes/b1/execs/cat/stdin', `${letter.repeat(100_000)}\n`)),
    )
    assert.deepEqual(new Set(written.map(({ status }) => status)), new Set([200]))
    await runner.call('POST', 'boxes/b1/execs/cat/stdin?eof=1')
    await runner.client.waitExec('b1', 'cat')
    const lines = (await runner.client.execOutput('b1', 'cat', 'stdout')).toString().trimEnd().split('\n')
    assert.deepEqual(
      lines.toSorted(),
      letters.map((letter) => letter.repeat(100_000)),
    )
  })
})

/** Announces ten bytes, sends five, and waits for the response. */
async function stall(runner: TestRunner, method: string, path: string): Promise<string> {
  const { hostname, port, host } = new URL(runner.url)
  const socket = connect(Number(port), hostname)
  const head = `${method} /v1/default/${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${runner.token}`
  socket.write(`${head}\r\nContent-Length: 10\r\n\r\nfirst`)
  let answer = ''
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
  while (!answer.includes('\r\n\r\n{')) await once(socket, 'data')
  socket.destroy()
  return answer
}
