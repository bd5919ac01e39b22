/** The pure parts of a network of names. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { isReachable } from '../src/network/addresses.ts'
import { readHello } from '../src/network/client-hello.ts'
import { Denials, networkDenied } from '../src/network/denials.ts'
import { dial } from '../src/network/dial.ts'
import { dnsAnswer, readQuestion } from '../src/network/dns-answer.ts'
import { cleanName, findAllowed, parsePattern, type Pattern } from '../src/network/patterns.ts'
import { expandAllowList, presetNames, type PresetSource } from '../src/network/presets.ts'

const patterns = (...texts: string[]): Pattern[] => texts.flatMap((text) => parsePattern(text) ?? [])

test('a name is on the list exactly, as a subdomain of a wildcard, and on the ports it is listed for', () => {
  const list = patterns('Packages.Example.org.', '*.git.example', 'git.example:22', 'private:intranet.example')
  const may = (name: string, port?: number): boolean => findAllowed(list, name, port) !== undefined
  assert.deepEqual([may('packages.example.org', 443), may('packages.example.org', 80)], [true, true])
  assert.deepEqual([may('packages.example.org', 22), may('a.packages.example.org')], [false, false])
  assert.deepEqual([may('a.b.git.example'), may('git.example', 22), may('git.example', 443)], [true, true, false])
  assert.deepEqual([may('evilgit.example'), may('example.org'), may('')], [false, false, false])
  assert.equal(findAllowed(list, 'intranet.example', 443)?.isPrivate, true)
  assert.ok(findAllowed(patterns('*'), 'anything.example', 443))
  for (const text of [
    '127.0.0.1',
    '[::1]',
    '::1',
    '2130706433',
    '0x7f.1',
    'localhost',
    'a.localhost',
    '',
    '*.',
    '**',
    'a b',
    'x:0',
    'x:70000',
    'x:53',
    'https://x.example',
    '*x.example',
    'x/y',
    '-a.example',
    'a..b',
  ])
    assert.equal(parsePattern(text), undefined, text)
  assert.equal(cleanName('BÜCHER.example.'), 'xn--bcher-kva.example')
  for (const text of [
    'a.example/b',
    'a.example?b',
    'a.example#b',
    'a.example\\b',
    'b@a.example',
    '%61.example',
    'a.\texample',
  ])
    assert.equal(cleanName(text), undefined, text)
})

test('addresses of this machine, its networks and metadata services are never dialled, in whatever form', () => {
  const own = ['203.0.113.200', '2001:db8::5']
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '10.0.0.1',
    '172.20.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '100.100.100.200',
    '168.63.129.16',
    '192.0.0.192',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::a9fe:a9fe',
    '64:ff9b:1:7f00:0:100:808:808',
    '::ffff:0:127.0.0.1',
    '2001:db8::5efe:10.0.0.1',
    '2001:db8::200:5efe:7f00:1',
    '2002:7f00:1::1',
    'fe80::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff02::1',
    '203.0.113.200',
    '2001:db8::5',
    'example',
    '',
  ])
    assert.equal(isReachable(address, own, false), false, address)
  for (const address of ['203.0.113.5', '8.8.8.8', '2606:4700::1', '64:ff9b::808:808', '64:ff9b:1:5::808:808'])
    assert.equal(isReachable(address, own, false), true, address)
  assert.deepEqual(
    ['10.0.0.1', 'fc00::1', '127.0.0.1', '169.254.169.254', 'fd00:ec2::254'].map((address) =>
      isReachable(address, own, true),
    ),
    [true, true, false, false, false],
  )
})

test('only the checked address is dialled; private addresses are left out', async () => {
  const dialled: string[] = []
  const answers = [['203.0.113.5'], ['127.0.0.1'], ['127.0.0.1', '10.0.0.1'], []]
  const internet = {
    resolve: () => Promise.resolve(answers.shift() ?? []),
    connect: (address: string) => {
      dialled.push(address)
      throw new Error('dialled')
    },
    own: () => [],
  }
  await assert.rejects(dial(internet, 'a.example', 443, false), /dialled/)
  assert.deepEqual(await dial(internet, 'a.example', 443, false), { refused: 'private_address' })
  assert.deepEqual(await dial(internet, 'a.example', 443, false), { refused: 'private_address' })
  assert.deepEqual(await dial(internet, 'a.example', 443, false), { refused: 'no_address' })
  assert.deepEqual(dialled, ['203.0.113.5'])
})

test('a DNS query gets an address, an empty answer or "no such name", and nonsense gets nothing', () => {
  const query = (name: string, type: number): Buffer =>
    Buffer.concat([
      Buffer.from([0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
      ...name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])),
      Buffer.from([0, 0, type, 0, 1]),
    ])
  assert.deepEqual(readQuestion(query('A.Example', 1)), { name: 'a.example', type: 1, end: 27 })
  const found = dnsAnswer(query('a.example', 1), '127.64.0.1')
  assert.deepEqual([found?.readUInt16BE(0), (found?.[3] ?? 0) & 15, found?.readUInt16BE(6)], [0xabcd, 0, 1])
  assert.deepEqual([...(found?.subarray(-4) ?? [])], [127, 64, 0, 1])
  const empty = dnsAnswer(query('a.example', 28), '127.64.0.1')
  assert.deepEqual([(empty?.[3] ?? 0) & 15, empty?.readUInt16BE(6)], [0, 0])
  assert.equal((dnsAnswer(query('b.example', 1), undefined)?.[3] ?? 0) & 15, 3)
  const whole = query('a.example', 1)
  for (let length = 0; length < whole.length; length += 1)
    assert.equal(dnsAnswer(whole.subarray(0, length), '127.64.0.1'), undefined)
  assert.equal(readQuestion(Buffer.concat([whole.subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1, 0])])), undefined)
})

/** A client's first message with these extensions. */
function hello(...names: string[]): Buffer {
  const extension = (name: string): Buffer => {
    const text = Buffer.from(name)
    const list = Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), text])
    list.writeUInt16BE(text.length + 3, 0)
    list.writeUInt16BE(text.length, 3)
    const head = Buffer.alloc(4)
    head.writeUInt16BE(list.length, 2)
    return Buffer.concat([head, list])
  }
  const extensions = Buffer.concat(names.map(extension))
  const size = Buffer.alloc(2)
  size.writeUInt16BE(extensions.length)
  const body = Buffer.concat([Buffer.alloc(34, 3), Buffer.from([0, 0, 2, 0x13, 1, 1, 0]), size, extensions])
  const head = Buffer.from([1, 0, 0, 0])
  head.writeUIntBE(body.length, 1, 3)
  return Buffer.concat([head, body])
}

function records(message: Buffer, each: number): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < message.length; at += each) {
    const part = message.subarray(at, at + each)
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part)
  }
  return Buffer.concat(parts)
}

test('the name of a TLS client is found however its message is cut, and two names are none', () => {
  const message = hello('a.example')
  for (const each of [1, 2, 7, 4_000]) {
    const bytes = records(message, each)
    for (let length = 0; length < bytes.length; length += 1)
      assert.equal(readHello(bytes.subarray(0, length)).kind, 'partial', `${each} ${length}`)
    assert.deepEqual(readHello(bytes), { kind: 'hello', name: 'a.example' })
    assert.deepEqual(readHello(Buffer.concat([bytes, Buffer.from('more')])), { kind: 'hello', name: 'a.example' })
  }
  assert.deepEqual(readHello(records(hello(), 4_000)), { kind: 'hello', name: undefined })
  assert.equal(readHello(records(hello('a.example', 'evil.example'), 4_000)).kind, 'other')
  assert.equal(readHello(Buffer.from('GET / HTTP/1.1\r\n')).kind, 'other')
  assert.equal(readHello(Buffer.from([22, 3, 1, 0, 0])).kind, 'other')
  assert.equal(readHello(records(Buffer.alloc(10_900, 1), 1)).kind, 'other', 'no client makes so many records')
  const wrong = Buffer.from(message)
  wrong.writeUInt16BE(60_000, 4 + 34 + 7) // its extensions are longer than the message
  assert.equal(readHello(records(wrong, 4_000)).kind, 'other')
})

test('what was refused is counted once per attempt, and a command hears of what was refused while it ran', () => {
  const denials = new Denials()
  denials.lookedUp('early.example', 1, 1)
  const before = denials.snapshot()
  for (const type of [1, 28, 1, 28]) denials.lookedUp('evil.example', type, 5)
  denials.add({ name: '203.0.113.9', port: 443, because: 'not_allowed' }, 6)
  assert.deepEqual(
    denials.since(before).map(({ name, count }) => `${name} ${count}`),
    ['evil.example 2', '203.0.113.9 1'],
  )
  const { message, advice, count } = networkDenied(['a.example', '*.b.example', 'preset:npm'], denials.since(before))
  assert.equal(
    message,
    'this box may reach only a.example, *.b.example, npm; evil.example was refused (2×); 203.0.113.9:443 was refused',
  )
  assert.match(advice, /policy and not a fault/)
  assert.equal(count, 3)
  const next = new Denials()
  next.read([...(JSON.parse(JSON.stringify(denials.list)) as unknown[]), 3, { name: 'x.example', because: 'magic' }])
  assert.deepEqual(next.list, denials.list, 'another process continues the list')
  const later = next.snapshot()
  next.lookedUp('evil.example', 1, 9)
  assert.deepEqual([next.since(later)[0]?.count, next.list.at(-1)?.count], [1, 3])
  for (let i = 0; i < 1_000; i += 1) denials.lookedUp(`${i}.example`, 1, i)
  assert.equal(denials.list.length, 256)
})

const PIP: Readonly<Record<string, string>> = {
  install: '-i, --index-url <url> Base URL of the Python Package Index (default\n https://py.example/simple). This',
  '--version': 'pip 25.0 from /opt/python/pip (python 3.12)',
}
const FILES: Readonly<Record<string, readonly string[]>> = {
  '/etc/apt/sources.list': ['# deb http://no.example\ndeb http://deb.example/debian x main'],
  '/opt/python/pip/_internal/models/index.py': [
    'A = PackageIndex("https://py.example/", file_storage_domain="kept.example")\nB = PackageIndex(\n  "https://test.example/", file_storage_domain="no.example"\n)',
  ],
}

test('presets ask the tools for their index, and the index for its files', async () => {
  const source: PresetSource = {
    home: '/home/ann',
    run: (program, args) =>
      Promise.resolve(
        {
          npm: '{"registry":"https://npm.mirror.example/","@corp:registry":"https://corp.example:8443/npm/","other":3}',
          pip: PIP[args[0] ?? ''],
          go: 'https://go.example,direct\nsum.example\n',
        }[program] ?? '',
      ),
    get: (url) =>
      Promise.resolve(
        {
          'https://npm.mirror.example/npm/latest': '{"dist":{"tarball":"https://files.mirror.example/npm.tgz"}}',
          'https://py.example/simple/pip/': '{"files":[{"url":"https://py-files.example/x.whl"}]}',
          'https://index.crates.example/config.json': '{"dl":"https://static.crates.example/crates"}',
        }[url] ?? '',
      ),
    files: (glob) => FILES[glob] ?? [],
    folders: () => ['index.crates.example-6f17d22bba15001f', 'other'],
  }
  const names = (preset: Parameters<typeof presetNames>[0]): Promise<readonly string[]> => presetNames(preset, source)
  assert.deepEqual(await names('npm'), ['npm.mirror.example', 'corp.example:8443', 'files.mirror.example'])
  assert.deepEqual(await names('pypi'), ['py.example', 'py-files.example'])
  const pip = (config: string, more: Partial<PresetSource> = {}): Promise<readonly string[]> =>
    presetNames('pypi', {
      ...source,
      run: (_, [word = '']) => Promise.resolve(word === 'config' ? config : (PIP[word] ?? '')),
      ...more,
    })
  const own =
    "global.extra-index-url='https://a.example/simple https://b.example/simple'\n:env:.timeout='https://no.example'"
  assert.deepEqual(await pip(own), ['a.example', 'b.example', 'py.example', 'py-files.example'])
  assert.deepEqual(await pip("install.index-url='https://mirror.example:8443/simple'"), ['mirror.example:8443'])
  const offline = await pip('', { get: () => Promise.resolve('') })
  assert.deepEqual(offline, ['py.example', 'kept.example'], 'pip knows where its default index keeps its files')
  assert.deepEqual(await names('crates'), ['index.crates.example', 'static.crates.example'])
  assert.deepEqual(await names('go'), ['go.example', 'sum.example'])
  assert.deepEqual(await names('debian'), ['deb.example'])
  assert.deepEqual(await expandAllowList(['x.example', 'preset:go', 'x.example'], names), [
    'x.example',
    'go.example',
    'sum.example',
  ])
  const refusal = async (...allow: string[]): Promise<unknown> =>
    expandAllowList(allow, () => Promise.resolve([])).catch((error: unknown) => isFault(error) && error.report.errors)
  assert.deepEqual(((await refusal('a.example', '127.0.0.1')) as { field: string }[])[0]?.field, 'network.allow.1')
  assert.match(JSON.stringify(await refusal('preset:npm')), /npm is not installed/)
  assert.match(JSON.stringify(await refusal('preset:nothing')), /preset:pypi/)
})
