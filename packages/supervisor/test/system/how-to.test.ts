// Runs the examples of docs/how-to/supervise-a-process.md.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { closedPort } from '../../../../test/kit/tcp-server.ts'
import { promisify } from 'node:util'
import { program } from '../child-fixture.ts'

const root = path.join(import.meta.dirname, '../../../..')
const page = readFileSync(path.join(root, 'docs/how-to/supervise-a-process.md'), 'utf8')

/** One of the examples under a heading. */
function example(heading: string, index = 0): string {
  const [, part = ''] = page.split(`## ${heading}\n`)
  return [...part.matchAll(/```ts\n([\s\S]*?)```/g)][index]?.[1] ?? assert.fail(`no example under ${heading}`)
}

let folder = ''
before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'breakfall-how-to-'))
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'))
})
after(() => rmSync(folder, { recursive: true, force: true }))

async function run(code: string): Promise<string> {
  const file = path.join(folder, 'example.ts')
  writeFileSync(file, code)
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` }
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder, env, timeout: 60_000 })
  return stdout
}

describe('the how-to about supervising a process', () => {
  it('has a first example that runs as printed', async () => {
    const code = example('Ten lines')
    assert.ok(code.trim().split('\n').length <= 12)
    const output = await run(code.replaceAll('8080', `${await closedPort()}`))
    assert.equal(output, 'hello\nkilled_by_us \n')
  })

  it('has an example of requests that runs as printed', async () => {
    const setting = `import { supervise, type Supervised } from '@breakfall/supervisor'
const child = supervise({ command: 'cat' })
await child.start()
const ask = async (of: Supervised, options: { signal: AbortSignal }): Promise<string> => \`\${of.state.status} \${options.signal.aborted}\`
`
    const output = await run(
      `${setting}{\n${example('Requests in flight')}\nconsole.log(answer)\n}\nawait child.stop()`,
    )
    assert.equal(output, 'busy false\n')
  })

  it('has an example of a model server that runs as printed, given a llama-server', async () => {
    const standIn = path.join(folder, 'llama-server')
    writeFileSync(standIn, `#!/bin/sh\nexec '${process.execPath}' '${program('serves-then-dies.ts')}' "$4"\n`)
    chmodSync(standIn, 0o755)
    const output = await run(
      `${example('A model server')}\nconsole.log(response.status, model.url !== null)\nawait model.stop()`,
    )
    assert.equal(output, '404 true\n')
  })

  it('has an example of a request to a model server that runs as printed', async () => {
    const setting = `import { faultFrom } from '@breakfall/faults'
import { serveModel } from '@breakfall/supervisor'
const { signal } = new AbortController()
const client = { post: async (url: string, init: RequestInit) => console.log((await fetch(url, init)).status) }
const model = serveModel({ command: process.execPath, args: ({ port }) => ['${program('serves-then-dies.ts')}', \`\${port}\`] })
void model.start()
`
    assert.equal(await run(`${setting}{\n${example('A model server', 1)}\n}\nawait model.stop()`), '404\n')
  })

  it('names everything that the package exports', () => {
    const index = readFileSync(path.join(import.meta.dirname, '../../src/index.ts'), 'utf8')
    const names = [...index.matchAll(/export \{([^}]*)\}/g)].flatMap(([, list = '']) =>
      list.split(',').map((name) => name.replace('type ', '').trim()),
    )
    assert.ok(names.length > 20)
    assert.deepEqual(
      names.filter((name) => !new RegExp(`\\b${name}\\b`).test(page)),
      [],
    )
  })

  it('has an example of explaining a log that runs as printed', async () => {
    writeFileSync(
      path.join(folder, 'server.log'),
      'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n',
    )
    const output = await run(`${example('Explain a log')}\nprocess.stdin.destroy()`)
    assert.match(output, /^\[\s*\{\s*id: 'torch\.cuda_oom',\s*rank: 'cause'/)
  })
})
