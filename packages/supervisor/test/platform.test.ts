import assert from 'node:assert/strict'
import { closeSync, openSync, realpathSync } from 'node:fs'
import { createServer } from 'node:net'
import { userInfo } from 'node:os'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import {
  bootId,
  commandOf,
  DESCRIPTORS,
  HAS_PROCESS_TABLE,
  hasVariable,
  homeFolder,
  inheritedDescriptors,
  isDead,
  listenersBeside,
  parseListeners,
  pathOfOpen,
  processesBeside,
  processIds,
  readProcess,
  sendSignal,
  socketsOf,
  usageOf,
  userFolder,
} from '../src/platform.ts'

const options = { skip: HAS_PROCESS_TABLE ? false : 'this system has no process table' }
const NOBODY = 2 ** 22 + 1 // above the largest pid that Linux gives

test('a process is described by its parent, its command, its environment and its use of the machine', options, () => {
  const own = readProcess(process.pid)
  assert.ok(own)
  assert.equal(own.ppid, process.ppid)
  assert.equal(isDead(own), false)
  assert.ok(own.startTime > 0)
  assert.ok(processIds().includes(process.pid))
  assert.ok(processesBeside(process.pid).includes(process.pid))
  assert.ok(commandOf(process.pid).startsWith(process.argv0) || commandOf(process.pid).includes('node'))
  const { cpuMs, residentBytes, readBytes } = usageOf(process.pid)
  assert.ok(cpuMs > 0 && residentBytes > 0 && readBytes > 0)
  const [name = '', value = ''] = Object.entries(process.env).find(([, text]) => (text ?? '').length > 1) ?? []
  assert.equal(hasVariable(process.pid, name, value), true)
  assert.equal(hasVariable(process.pid, name, value.slice(0, -1)), false, 'a part of a value is not the value')
  assert.equal(hasVariable(process.pid, name.slice(1), value), false, 'a part of a name is not the name')
})

test('a process that does not exist has no entry, no sockets and no use, and receives no signal', () => {
  assert.equal(readProcess(NOBODY), undefined)
  assert.deepEqual(socketsOf(NOBODY), [])
  assert.deepEqual(processesBeside(NOBODY), [])
  assert.equal(listenersBeside(NOBODY), undefined)
  assert.deepEqual(usageOf(NOBODY), { cpuMs: 0, majorFaults: 0, residentBytes: 0, readBytes: 0 })
  assert.equal(sendSignal(NOBODY, 0), false)
  assert.equal(sendSignal(process.pid, 0), true)
})

test("the kernel's table of sockets is read, with addresses in the order of the network", () => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1 0',
    '   1: 0100007F:0BB9 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0',
    '',
  ].join('\n')
  assert.deepEqual(parseListeners(table), [{ address: '7f000001', port: 3000, socket: '777', uid: 1000 }])
})

test('a listening socket is found by its port, its address and its owner', options, async (t) => {
  for (const [host, address] of [
    ['127.0.0.1', '7f000001'],
    ['::1', `${'0'.repeat(31)}1`],
  ] as const) {
    const server = createServer()
    t.after(() => server.close())
    const port = await new Promise<number>((resolve) => {
      server.once('error', () => resolve(0)) // this machine has no IPv6
      server.listen(0, host, () => {
        const at = server.address()
        resolve(typeof at === 'object' && at !== null ? at.port : 0)
      })
    })
    if (port === 0) continue
    const found = listenersBeside(process.pid)?.find((listener) => listener.port === port)
    assert.equal(found?.address, address)
    assert.ok(socketsOf(process.pid).includes(found?.socket ?? ''))
  }
})

test('an open file has its path and a name that leads to it, and Node passes none on to children', options, () => {
  const file = fileURLToPath(import.meta.url)
  const fd = openSync(file, 'r')
  try {
    assert.equal(pathOfOpen(fd), realpathSync(file))
    assert.equal(realpathSync(`${DESCRIPTORS}/${fd}`), realpathSync(file))
    assert.ok(!inheritedDescriptors().includes(fd))
  } finally {
    closeSync(fd)
  }
  assert.equal(pathOfOpen(fd), undefined)
  assert.match(bootId(), /^[0-9a-f-]{36}$/)
})

test("a user's folders come from absolute XDG variables, else from the home folder", () => {
  assert.equal(userFolder('state', { XDG_STATE_HOME: '/s', HOME: '/h' }), '/s')
  assert.equal(userFolder('state', { XDG_STATE_HOME: 's', HOME: '/h' }), '/h/.local/state')
  assert.equal(userFolder('config', { HOME: '/h' }), '/h/.config')
  assert.equal(homeFolder({ HOME: 'here' }), userInfo().homedir)
})
