/** A network of names: what is on the list works without any setting, and nothing else does. The internet is this machine. */
import { atEnd, newFolder, removeFolder, tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import http, { type Server as HttpServer } from 'node:http'
import https from 'node:https'
import net, { type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { boxNetworkSchema, type BoxNetworkView } from '@breakfall/wire'
import { findProgram } from '../../src/isolation/find-program.ts'
import { asProgram, inProcess, type TestRunner, until, withoutBwrap, withoutRoot } from '../kit.ts'

const curl = findProgram('curl', '/usr/bin:/bin')
const perl = findProgram('perl', '/usr/bin:/bin')
const missing = (curl === null && 'curl is not installed') || (perl === null && 'perl is not installed')
const skip = withoutBwrap || missing
const withoutNode = findProgram('node', '/usr/bin') === null && 'node is not in /usr/bin, so boxes do not have it'
const withoutNpm = findProgram('npm', '/usr/bin') === null && 'npm is not in /usr/bin, so boxes do not have it'

/** Of the machine that the runner is on. */
const OWN_ADDRESS = '203.0.113.200'

const TLS = new URL('../../../faults/test/tls/', import.meta.url)

async function port(t: TestContext, server: Server | HttpServer): Promise<number> {
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  atEnd(t, () => void server.close())
  return (server.address() as AddressInfo).port
}

/** The names of the internet, and the servers behind their addresses. */
async function internetOf(t: TestContext): Promise<{
  names: Record<string, string[][]>
  ports: Record<string, number>
  seen: string[]
}> {
  const seen: string[] = []
  const answer: http.RequestListener = (req, res) => {
    seen.push(`${req.headers.host} ${req.url}`)
    res.end(req.url === '/tiny' ? packument() : req.url?.endsWith('.tgz') === true ? tarball() : 'hello\n')
  }
  const [cert, key] = ['cert', 'key'].map((name) => readFileSync(new URL(`test-only-${name}.pem`, TLS)))
  const secure = https.createServer({ cert, key }, answer)
  secure.on('tlsClientError', () => undefined) // refused by the client
  const raw = net.createServer((socket) => {
    socket.on('data', (bytes) => {
      const text = bytes.toString('latin1')
      seen.push(...text.split('\r\n').filter((line) => /^(?:GET|Host|Upgrade)/i.test(line)))
      const [head, body] = text.startsWith('GET /socket')
        ? ['101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket', 'from the socket\n']
        : ['200 OK\r\nContent-Length: 6', 'hello\n']
      socket.write(`HTTP/1.1 ${head}\r\n\r\n${body}`)
      if (text.startsWith('GET /socket')) socket.end()
    })
  })
  const [webPort, plainPort] = [await port(t, secure), await port(t, http.createServer(answer))]
  const resets = await port(
    t,
    net.createServer((socket) => socket.resetAndDestroy()),
  )
  const silent = net.createServer()
  const open = new Set<net.Socket>()
  silent.on('connection', (socket) => open.add(socket))
  atEnd(t, () => {
    for (const socket of open) socket.destroy()
  })
  const ssh = await port(
    t,
    net.createServer((socket) => socket.end('SSH-2.0-test\r\n')),
  )
  const patient = net.createServer({ allowHalfOpen: true }, (socket) => {
    let said = ''
    socket.on('data', (bytes: Buffer) => (said += bytes.toString()))
    socket.on('end', () => setImmediate(() => socket.end(`heard ${said.length}\n`)))
  })
  return {
    seen,
    names: {
      'packages.example.org': [['203.0.113.1']],
      'a.wild.example': [['203.0.113.1']],
      'git.example': [['203.0.113.4']],
      'raw.wild.example': [['203.0.113.6']],
      'patient.example': [['203.0.113.5']],
      'resets.example': [['203.0.113.2']],
      'silent.example': [['203.0.113.3']],
      'loops.example': [['127.0.0.1']],
      'meta.example': [['169.254.169.254', '10.0.0.1', '::ffff:127.0.0.1']],
      'self.example': [[OWN_ADDRESS]],
      'rebinds.example': [['203.0.113.1'], ['127.0.0.1']],
    },
    ports: {
      '203.0.113.1 443': webPort,
      '203.0.113.1 80': plainPort,
      '203.0.113.2 443': resets,
      '203.0.113.3 443': await port(t, silent),
      '203.0.113.4 22': ssh,
      '203.0.113.6 80': await port(t, raw),
      '203.0.113.5 22': await port(t, patient),
    },
  }
}

/** The only package of the registry. */
const packument = (): string => {
  const integrity = `sha512-${createHash('sha512').update(tarball()).digest('base64')}`
  const dist = { tarball: 'http://packages.example.org/tiny/-/tiny-1.0.0.tgz', integrity }
  const version = { name: 'tiny', version: '1.0.0', main: 'main.js', dist }
  return JSON.stringify({ name: 'tiny', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } })
}

let packed: Buffer | undefined
function tarball(): Buffer {
  if (packed !== undefined) return packed
  const folder = newFolder()
  try {
    mkdirSync(join(folder, 'package'))
    writeFileSync(join(folder, 'package/package.json'), '{"name":"tiny","version":"1.0.0","main":"main.js"}')
    writeFileSync(join(folder, 'package/main.js'), 'module.exports = "tiny works"')
    return (packed = execFileSync('tar', ['-cz', '-C', folder, 'package']))
  } finally {
    removeFolder(folder)
  }
}

const ALLOW = [
  'packages.example.org',
  '*.wild.example',
  'git.example:22',
  'patient.example:22',
  ...['resets', 'silent', 'loops', 'meta', 'self', 'rebinds'].map((name) => `${name}.example`),
]

async function runnerWith(t: TestContext): Promise<{ runner: TestRunner; seen: string[] }> {
  const { names, ports, seen } = await internetOf(t)
  const runner = await inProcess(t, {
    environment: { ...process.env, SSL_CERT_DIR: '/etc/ssl/certs', PIP_CERT: '/root/not-in-a-box.pem' },
    internet: {
      resolve: (name) => {
        const answers = names[name] ?? []
        return Promise.resolve((answers.length > 1 ? answers.shift() : answers[0]) ?? [])
      },
      connect: (address, to) => net.connect({ host: '127.0.0.1', port: ports[`${address} ${to}`] ?? 1 }),
      own: () => [OWN_ADDRESS],
    },
  })
  return { runner, seen }
}

const fetchOf = (url: string, more = ''): string =>
  `curl -sk -m 20 ${more} -o /dev/stdout -w '%{http_code}\\n' '${url}' || echo "failed $?"`

const view = async (runner: TestRunner, box = 'b1'): Promise<BoxNetworkView> =>
  boxNetworkSchema.parse((await runner.call('GET', `boxes/${box}/network`)).json)

describe('a box with a list of names', { skip }, async () => {
  test('reaches them by every program without a variable, in capitals and with a dot; and nothing else', async (t) => {
    const { runner, seen } = await runnerWith(t)
    const made = await runner.box({ id: 'b1', network: { allow: ALLOW } })
    assert.deepEqual([made.network, made.isolation.netns], [{ allow: ALLOW }, true])
    assert.match(made.about?.join(' ') ?? '', /Network: only packages\.example\.org, \*\.wild\.example/)
    for (const url of [
      'https://packages.example.org/a',
      'http://packages.example.org/b',
      'https://PACKAGES.Example.ORG/c',
      'https://packages.example.org./d',
      'https://a.wild.example/e',
    ]) {
      const { stdout, exec } = await runner.run('b1', fetchOf(url))
      assert.equal(stdout, 'hello\n200\n', url)
      assert.deepEqual(exec.exit?.diagnostics, [], url)
    }
    assert.equal(seen.length, 5)
    const ssh = `use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => 'git.example', PeerPort => 22) or die; print <$s>`
    assert.equal((await runner.run('b1', { command: [perl ?? '', '-e', ssh] })).stdout, 'SSH-2.0-test\r\n')
    for (const program of ['/usr/bin/python3', '/usr/bin/node', '/usr/bin/git'].filter((file) => existsSync(file))) {
      const { stdout, stderr } = await runner.run('b1', BY_PROGRAM[program] ?? 'false')
      assert.match(stdout + stderr, /hello|not valid: is this a git repository/, program)
    }
    const own = await runner.run('b1', 'env | grep -i proxy; cat /etc/resolv.conf; echo $SSL_CERT_DIR $PIP_CERT')
    assert.equal(own.stdout, 'nameserver 127.0.0.1\n/etc/ssl/certs\n')

    const count = seen.length
    const refused: readonly (readonly [string, string, number | null, string?])[] = [
      ['https://evil.example/', 'evil.example', null],
      ['https://sub.packages.example.org/', 'sub.packages.example.org', null],
      ['https://wild.example/', 'wild.example', null],
      ['https://203.0.113.1/', '203.0.113.1', 443],
      ['https://169.254.169.254/', '169.254.169.254', 443],
      ['http://[::1]/', '::1', 80],
      ['http://2130706433/', '127.0.0.1', 80],
      ['http://git.example/', 'git.example', 80],
      ['https://other.example/', 'other.example', 443, '--connect-to other.example:443:packages.example.org:443'],
    ]
    for (const [url, name, at, more] of refused) {
      const { exec, stdout } = await runner.run('b1', fetchOf(url, more))
      assert.match(stdout, /failed \d+/, url)
      const [diagnostic] = exec.exit?.diagnostics ?? []
      assert.equal(diagnostic?.id, 'network_denied', url)
      assert.match(diagnostic?.message ?? '', /^this box may reach only packages\.example\.org, /)
      assert.deepEqual(diagnostic?.evidence, [at === null ? name : `${name}:${at}`])
    }
    const { denied, mode } = await view(runner)
    assert.equal(mode, 'allow')
    assert.deepEqual(
      denied.map(({ name, port: at, because }) => `${name} ${at} ${because}`),
      refused.map(([, name, at]) => `${name} ${at} ${name === 'other.example' ? 'other_name' : 'not_allowed'}`),
    )
    assert.equal(seen.length, count, 'something got through')
  })

  test('is refused addresses of private networks, names that change to them, TLS without a name, and another Host', async (t) => {
    const { runner, seen } = await runnerWith(t)
    await runner.box({ id: 'b1', network: { allow: ALLOW } })
    const because = async (name: string): Promise<string | undefined> =>
      (await view(runner)).denied.findLast((entry) => entry.name === name)?.because
    for (const name of ['loops.example', 'meta.example', 'self.example']) {
      assert.match((await runner.run('b1', fetchOf(`https://${name}/`))).stdout, /failed/)
      assert.equal(await because(name), 'private_address')
    }
    assert.equal((await runner.run('b1', fetchOf('https://rebinds.example/'))).stdout, 'hello\n200\n')
    assert.match((await runner.run('b1', fetchOf('https://rebinds.example/'))).stdout, /failed/)
    assert.equal(await because('rebinds.example'), 'private_address')
    const raw = (to: number, text: string): Record<string, unknown> => ({
      command: [perl ?? '', '-e', RAW, 'packages.example.org', String(to), text],
    })
    assert.equal((await runner.run('b1', raw(443, 'GET / HTTP/1.1\r\nHost: packages.example.org\r\n\r\n'))).stdout, '')
    assert.equal(await because('packages.example.org'), 'other_name')
    seen.length = 0
    const request = (host: string): string => `GET /${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    const two = await runner.run('b1', raw(80, request('packages.example.org') + request('evil.example')))
    assert.deepEqual(two.stdout.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 403'])
    const doubled = 'GET / HTTP/1.1\r\nHost: packages.example.org\r\nHost: evil.example\r\n\r\n'
    assert.doesNotMatch((await runner.run('b1', raw(80, doubled))).stdout, /200/)
    const absolute = 'GET http://evil.example/ HTTP/1.1\r\nHost: packages.example.org\r\n\r\n'
    assert.match((await runner.run('b1', raw(80, absolute))).stdout, /403/)
    assert.deepEqual(seen, ['packages.example.org /packages.example.org'])
    seen.length = 0
    const upgrade = async (path: string, to: string, then = ''): Promise<string> => {
      const host = 'raw.wild.example'
      const text = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade, close\r\nUpgrade: ${to}\r\n\r\n${then}`
      return (await runner.run('b1', { command: [perl ?? '', '-e', RAW, host, '80', text] })).stdout
    }
    assert.match(await upgrade('/1', 'websocket', request('evil.example')), / 200 [^]*hello\n$/)
    assert.match(await upgrade('/2', 'h2c'), / 200 [^]*hello\n$/)
    assert.match(await upgrade('/socket', 'websocket'), / 101 [^]*from the socket\n$/)
    assert.equal(await upgrade('/socket?unasked', 'h2c'), '') // cut, for the server has left HTTP on its own
    const host = 'Host: raw.wild.example'
    const asked = ['GET /1 HTTP/1.1', host, 'Upgrade: websocket', 'GET /2 HTTP/1.1', host]
    assert.deepEqual(seen, [
      ...asked,
      'GET /socket HTTP/1.1',
      host,
      'Upgrade: websocket',
      'GET /socket?unasked HTTP/1.1',
      host,
    ])
    // Peers that reset, or never say anything, harm no one else.
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'slow',
      shell: fetchOf('https://silent.example/'),
      background: true,
    })
    assert.match((await runner.run('b1', fetchOf('https://resets.example/'))).stdout, /failed/)
    assert.equal((await runner.run('b1', fetchOf('https://packages.example.org/'))).stdout, 'hello\n200\n')
  })

  test('installs a package with the real npm, from a registry on the list', { skip: withoutNpm }, async (t) => {
    const { runner, seen } = await runnerWith(t)
    await runner.box({ id: 'b1', network: { allow: ['packages.example.org'] } })
    const shell = `npm install --registry http://packages.example.org/ --no-audit --no-fund --no-update-notifier tiny && /usr/bin/node -p 'require("tiny")'`
    const { stdout, stderr, exec } = await runner.run('b1', shell)
    assert.match(stdout, /added 1 package[^]*tiny works\n$/, stderr)
    assert.deepEqual(exec.exit?.diagnostics, [])
    assert.deepEqual(seen, ['packages.example.org /tiny', 'packages.example.org /tiny/-/tiny-1.0.0.tgz'])
    const other = await runner.run('b1', 'npm install --fetch-retries 0 --registry http://evil.example/ tiny-two')
    assert.notEqual(other.exec.exit?.code, 0)
    assert.deepEqual(
      other.exec.exit?.diagnostics.map(({ id, evidence }) => [id, evidence]),
      [['network_denied', ['evil.example']]],
    )
  })

  test('answers a client that has closed its own direction, whatever the port', async (t) => {
    const { runner } = await runnerWith(t)
    await runner.box({ id: 'b1', network: { allow: ALLOW } })
    const half = async (host: string, to: number, text: string): Promise<string> =>
      (await runner.run('b1', { command: [perl ?? '', '-e', HALF_CLOSED, host, String(to), text] })).stdout
    assert.equal(await half('patient.example', 22, 'x'.repeat(5_000)), 'heard 5000\n')
    const request = 'GET /half HTTP/1.1\r\nHost: packages.example.org\r\n\r\n'
    assert.match(await half('packages.example.org', 80, request), /^HTTP\/1\.1 200[^]*hello/)
  })

  test(
    'checks the name in a ClientHello that arrives in pieces, and cuts one without a name',
    { skip: withoutNode },
    async (t) => {
      const { runner, seen } = await runnerWith(t)
      await runner.box({ id: 'b1', network: { allow: ALLOW } })
      const secure = async (name: string): Promise<string> =>
        (await runner.run('b1', { command: ['/usr/bin/node', '-e', SPLIT_HELLO, name] })).stdout
      assert.match(await secure('packages.example.org'), /^HTTP\/1\.1 200[^]*hello/)
      for (const name of ['', 'evil.example']) assert.equal(await secure(name), 'cut\n', name)
      assert.equal(seen.length, 1)
      const { denied } = await view(runner)
      assert.deepEqual(
        denied.map(({ name, because }) => `${name} ${because}`),
        ['packages.example.org other_name', 'evil.example other_name'],
      )
    },
  )

  test('is changed while it runs, by its owner; other boxes have no list; and a bad list is refused', async (t) => {
    const { runner } = await runnerWith(t)
    await runner.box({ id: 'b1', network: { allow: [] } })
    assert.match((await runner.run('b1', fetchOf('https://packages.example.org/'))).stdout, /failed/)
    const put = (allow: unknown, headers = {}): ReturnType<TestRunner['call']> =>
      runner.call('PUT', 'boxes/b1/network', { allow }, headers)
    const changed = await put(['packages.example.org', 'git.example:22'], { 'x-breakfall-epoch': '5' })
    assert.deepEqual([changed.status, changed.json['allow']], [200, ['packages.example.org', 'git.example:22']])
    assert.equal((await put([], { 'x-breakfall-epoch': '4' })).json.category, 'lease_lost')
    assert.equal((await runner.run('b1', fetchOf('https://packages.example.org/'))).stdout, 'hello\n200\n')
    const record = await runner.call('GET', 'boxes/b1')
    assert.match(JSON.stringify(record.json['about']), /Network: only packages\.example\.org, git\.example:22;/)
    for (const allow of [['127.0.0.1'], ['localhost'], ['preset:nothing'], ['a b'], 'x', [3]])
      assert.equal((await put(allow)).status, 400, JSON.stringify(allow))
    await runner.call('POST', 'boxes/b1/stop')
    await runner.call('POST', 'boxes/b1/start')
    assert.equal((await runner.run('b1', fetchOf('https://packages.example.org/'))).stdout, 'hello\n200\n')
    await runner.box({ id: 'b2' })
    const none = await view(runner, 'b2')
    assert.deepEqual([none.mode, none.allow, none.denied], ['none', [], []])
    assert.equal((await runner.call('PUT', 'boxes/b2/network', { allow: [] })).status, 400)
  })

  test(
    'still reaches its names after a restart of the runner, and what was refused is still listed (a plain user)',
    { skip: withoutRoot },
    async (t) => {
      const { names, ports } = await internetOf(t)
      const folder = tempFolder(t)
      chmodSync(folder, 0o755)
      const file = join(folder, 'internet.json')
      writeFileSync(file, JSON.stringify({ names, ports }), { mode: 0o644 })
      const preload = new URL('../programs/fake-internet.mjs', import.meta.url).href
      const env = { ...process.env, FAKE_INTERNET: file, NODE_OPTIONS: `--import ${preload}` }
      const user = { uid: 65_534, gid: 65_534 }
      const runner = await asProgram(t, join(folder, 'state'), [], user, {}, env)
      await runner.box({ id: 'b1', network: { allow: ['packages.example.org'] } })
      const shell = `getent hosts packages.example.org; ${fetchOf('https://packages.example.org/')}; while [ ! -e go ]; do sleep 0.02; done; ${fetchOf('https://packages.example.org/', '--retry 20 --retry-all-errors --retry-delay 1')}; ${fetchOf('https://203.0.113.1/')}`
      await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell })
      for await (const event of runner.client.execEvents('b1', 'e1'))
        if (event.type === 'stdout' && event.data?.includes('200') === true) break
      await runner.run('b1', 'getent hosts evil.example; true')
      await until(
        () => existsSync(join(runner.stateDir, 'boxes/default/b1/denied.json')),
        (isKept) => isKept,
      )
      await runner.kill('SIGKILL')
      const next = await asProgram(t, runner.stateDir, [], user, {}, env)
      await next.call('PUT', 'boxes/b1/files/go', '')
      const { exit } = await next.client.waitExec('b1', 'e1')
      const output = (await next.client.execOutput('b1', 'e1', 'stdout')).toString()
      assert.match(output, /^127\.64\.0\.1 +packages\.example\.org\nhello\n200\nhello\n200\n000\nfailed \d+\n$/)
      assert.deepEqual(exit?.diagnostics[0]?.evidence, ['203.0.113.1:443'])
      assert.deepEqual(
        (await view(next)).denied.map(({ name, count }) => `${name} ${count}`),
        ['evil.example 1', '203.0.113.1 1'],
      )
    },
  )
})

const BY_PROGRAM: Readonly<Record<string, string>> = {
  '/usr/bin/python3': `/usr/bin/python3 -c "import urllib.request; print(urllib.request.urlopen('http://packages.example.org/py').read())"`,
  '/usr/bin/node': `/usr/bin/node -e "fetch('http://packages.example.org/node').then((r) => r.text()).then(console.log)"`,
  '/usr/bin/git': 'git -c http.sslVerify=false ls-remote https://packages.example.org/git',
}

/** TLS to packages.example.org that asks for another name, or for none; its first bytes leave in pieces. */
const SPLIT_HELLO = `const servername = process.argv[1]
const raw = require('net').connect(443, 'packages.example.org').setNoDelay()
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const send = async (bytes) => { for (let i = 0; i < bytes.length; i += 50) { raw.write(bytes.subarray(i, i + 50)); await wait(1) } }
const half = new (require('stream').Duplex)({ read() {}, write: (bytes, _, done) => void send(bytes).then(() => done()) })
let isUp = false
raw.on('data', (bytes) => half.push(bytes)).on('error', () => {}).on('close', () => { if (!isUp) console.log('cut'); process.exit() })
const tls = require('tls').connect({ socket: half, servername, rejectUnauthorized: false }, () => {
  isUp = true
  tls.write('GET / HTTP/1.1\\r\\nHost: packages.example.org\\r\\nConnection: close\\r\\n\\r\\n')
})
tls.on('error', () => {}).pipe(process.stdout)`

/** Sends a text, and prints what comes back until the peer is silent for a moment after its last word or ends. */
const programOf = (then: string): string =>
  `use IO::Socket::INET; my ($host, $port, $text) = @ARGV; $text =~ s/\\\\r\\\\n/\\r\\n/g;
my $s = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) or die; print $s $text; $s->flush; ${then}
while (sysread($s, my $part, 4096)) { print $part }`
const RAW = programOf('')
const HALF_CLOSED = programOf('shutdown($s, 1);')
