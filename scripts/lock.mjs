/**
 * Run after `npm install`: makes package-lock.json fit for every machine.
 *
 * 1. Download addresses go, so that each machine uses the registry it is set up for.
 * 2. A registry mirror may lack the native packages of other platforms; npm then leaves them out of the lock, and `npm ci`
 *    refuses that lock. They are put back with their version and platform: elsewhere they are never fetched.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './setup.mjs'

const file = join(root, 'package-lock.json')
const lock = JSON.parse(readFileSync(file, 'utf8'))

for (const entry of Object.values(lock.packages)) {
  if (typeof entry.resolved === 'string' && entry.resolved.startsWith('http')) delete entry.resolved
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const path = `node_modules/${name}`
    const platform = platformOf(name)
    if (lock.packages[path] || !platform || !/^\d/.test(version)) continue
    lock.packages[path] = { version, dev: true, optional: true, ...platform }
  }
}
writeFileSync(file, JSON.stringify(lock, null, 2) + '\n')

function platformOf(name) {
  const parts =
    /(android|darwin|freebsd|linux|openharmony|win32)-(arm-?\w*|arm64|x64|ia32|ppc64|riscv64|s390x)(?:-(musl|gnu|msvc))?/.exec(
      name,
    )
  if (!parts) return null
  const [, os, cpu, libc] = parts
  return {
    os: [os],
    cpu: [cpu.startsWith('arm-') ? 'arm' : cpu],
    ...(libc === 'musl' ? { libc: ['musl'] } : {}),
  }
}
