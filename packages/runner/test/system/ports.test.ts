/** Ports of a box on the host: only where the runner allows it, and only while the box runs. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { findProgram } from '../../src/isolation/find-program.ts'
import { asProgram, inProcess, withoutBwrap, withoutRoot } from '../kit.ts'

const perl = findProgram('perl', '/usr/bin:/bin') ?? ''
const skip = withoutBwrap || (perl === '' && 'the test server is written in perl, which is not installed')

/** Answers each connection with its number before anything is asked, and then with what it was sent. */
const SERVER = `use IO::Socket::INET; my $n = 0;
my $s = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1', LocalPort => 3000, ReuseAddr => 1) or die $!;
while (my $c = $s->accept) { $n++; if (fork() == 0) { $c->autoflush(1); print $c "hello $n\\n"; while (my $line = <$c>) { print $c $line } exit } close $c }`
const server = { execId: 'web', command: [perl, '-e', SERVER], background: { name: 'web', ready: { port: 3000 } } }

/** What arrives until the other side ends, after sending a text; or the error's code. */
function ask(url: string, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: '127.0.0.1', port: Number(new URL(url).port), allowHalfOpen: true })
    let said = ''
    socket.on('error', (error) => resolve('code' in error ? String(error.code) : error.message))
    socket.on('data', (bytes: Buffer) => {
      if (said === '') socket.end(text)
      said += bytes.toString()
    })
    socket.on('close', () => resolve(said))
  })
}

describe('a port of a box on the host', { skip }, () => {
  for (const [who, uid] of [
    ['root', 0],
    ['a plain user', 65_534],
  ] as const)
    test(
      `reaches the server in the box until it is closed or the box stops (runner of ${who})`,
      { skip: uid !== 0 && withoutRoot },
      async (t) => {
        const folder = tempFolder(t)
        chmodSync(folder, 0o755)
        const as = uid === 0 ? {} : { uid, gid: uid }
        const runner = await asProgram(t, join(folder, 'state'), ['--allow-ports'], as)
        const ports = (method: string, path = '', body?: object): ReturnType<typeof runner.call> =>
          runner.call(method, `boxes/b1/ports${path}`, body)
        await runner.box({ id: 'b1' })
        const open = await ports('POST', '', { port: 3000 })
        assert.equal(open.status, 201, open.text)
        const { port, url } = open.json as { port: number; url: string }
        assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
        assert.equal(port, 3000)
        assert.match(await ask(url, ''), /^(?:ECONNRESET|)$/, 'nothing listens there yet')
        assert.equal((await runner.call('POST', 'boxes/b1/exec', server)).status, 201)
        const large = `${'x'.repeat(300_000)}\n`
        assert.equal(await ask(url, large), `hello 1\n${large}`)
        const many = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(url, `${i}\n`)))
        assert.deepEqual(
          many.map((text) => text.replace(/^hello \d+\n/, '')),
          Array.from({ length: 20 }, (_, i) => `${i}\n`),
        )
        assert.deepEqual((await ports('POST', '', { port: 3000 })).json, { port, url })
        assert.deepEqual((await ports('GET')).json, { ports: [{ port, url }] })
        const second = await runner.client.openPort('b1', 3001)
        assert.deepEqual(await runner.client.listPorts('b1'), [{ port, url }, second])
        await runner.client.closePort('b1', 3001)
        assert.equal(await ask(second.url, ''), 'ECONNREFUSED')
        assert.deepEqual([(await ports('DELETE', '/3001')).status, (await ports('DELETE', '/x')).status], [404, 404])
        assert.equal((await ports('POST', '', { port: 0 })).status, 400)
        await runner.call('POST', 'boxes/b1/stop')
        assert.equal(await ask(url, ''), 'ECONNREFUSED')
        assert.deepEqual((await ports('GET')).json, { ports: [] })
        assert.equal((await ports('POST', '', { port: 3000 })).json.category, 'box_stopped')
      },
    )

  test('is refused where the runner does not allow it, and for a box whose ports are already the machine’s', async (t) => {
    const closed = await inProcess(t)
    await closed.box({ id: 'b1' })
    const refused = await closed.call('POST', 'boxes/b1/ports', { port: 3000 })
    assert.deepEqual([refused.status, refused.json.category], [403, 'forbidden'])
    assert.match(String(refused.json['error']), /--allow-ports/)
    const open = await inProcess(t, { allowPorts: true })
    await open.box({ id: 'b1', network: 'host' })
    const own = await open.call('POST', 'boxes/b1/ports', { port: 3000 })
    assert.deepEqual([own.status, own.json.category], [400, 'invalid_request'])
  })
})
