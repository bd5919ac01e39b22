/** The package runs in a browser: no Node APIs in its source, no dependencies. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import test from 'node:test'
import vm from 'node:vm'

const SRC = new URL('../src/', import.meta.url)
const files = readdirSync(SRC)
const source = (file: string): string => readFileSync(new URL(file, SRC), 'utf8')

test('there is source to look at', () => assert.ok(files.includes('index.ts') && files.length > 5))

for (const file of files) {
  test(`${file} imports only its neighbours`, () => {
    for (const [, from] of source(file).matchAll(/\bfrom '([^']+)'|\bimport\(?\s*'([^']+)'/g)) {
      assert.match(from ?? '', /^\.\/[a-z-]+\.ts$/)
    }
  })

  test(`${file} uses no global that only Node has`, () => {
    const code = source(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    assert.doesNotMatch(code, /\b(?:process\.|Buffer\b|require\(|__dirname|setImmediate|global\.|NodeJS\.)/)
  })
}

test('there are no dependencies', () => {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Record<
    string,
    object
  >
  assert.deepEqual(
    Object.keys({ ...manifest['dependencies'], ...manifest['peerDependencies'], ...manifest['optionalDependencies'] }),
    [],
  )
})

test('it classifies in a realm with only JavaScript and web APIs', () => {
  const realm = vm.createContext({ Headers, AbortSignal, AbortController, DOMException, loaded: {} })
  loadInto(realm, 'index.ts', new Set())
  const outcome: unknown = vm.runInContext(
    `const { classify, decide, redact, POLICY_DEFAULTS } = loaded['index.ts']
     const broken = new TypeError('Failed to fetch', { cause: Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }) })
     const fault = classify(broken, { boundary: 'model', phase: 'stream', signal: new AbortController().signal })
     const { action } = decide(fault.report, { at: 'call', attempt: 1, awayMs: 0, dice: 0 }, POLICY_DEFAULTS, 0)
     JSON.stringify([typeof process, typeof Buffer, fault.category, fault.errorRaw, action, redact('Bearer abcdefgh')])`,
    realm,
  )
  assert.deepEqual(JSON.parse(String(outcome)), [
    'undefined',
    'undefined',
    'model_stream_interrupted',
    'read ECONNRESET',
    'retry',
    'Bearer [redacted]',
  ])
})

/** A module loader for one flat folder: each file becomes a function, and later files read its exports. */
function loadInto(realm: vm.Context, file: string, done: Set<string>): void {
  if (done.has(file)) return
  done.add(file)
  const code = stripTypeScriptTypes(source(file))
  const names: string[] = []
  const body = code
    .replace(/^(?:import|export) \{([^}]*)\} from '\.\/([^']+)'/gm, (line: string, list: string, from: string) => {
      loadInto(realm, from, done)
      const wanted = list.split(',').flatMap((name) => name.trim() || [])
      if (line.startsWith('export')) names.push(...wanted)
      return `const { ${wanted.join(', ')} } = loaded['${from}']`
    })
    .replace(/^export (const|function|async function|class) (\w+)/gm, (_line, kind: string, name: string) => {
      names.push(name)
      return `${kind} ${name}`
    })
  vm.runInContext(`(() => {${body}\nloaded['${file}'] = { ${names.join(', ')} }\n})()`, realm, { filename: file })
}
