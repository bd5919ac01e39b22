/** A new database for a test file, in a PostgreSQL that all test files of a run share. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { eventually } from './wait.ts'

export type Database = {
  readonly url: string
  /** Without the store: what is really in the tables. */
  query(sql: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>
  close(): Promise<void>
}

export async function newDatabase(): Promise<Database> {
  const { url, socket } = await sharedServer()
  const name = `test_${randomBytes(6).toString('hex')}`
  await once(url, `CREATE DATABASE ${name}`)
  const own = url.replace(/\/postgres$/, `/${name}`)
  const pool = new pg.Pool({ connectionString: own, max: 2 })
  pool.on('error', () => undefined) // tests end connections
  return {
    url: own,
    query: async (sql, values = []) => (await pool.query<Record<string, unknown>>(sql, [...values])).rows,
    close: async () => {
      await pool.end()
      await once(url, `DROP DATABASE ${name} WITH (FORCE)`)
      socket.destroy()
    },
  }
}

// ---- details ----

/** The test runner is the parent of all test files. Each file has a temporary folder of its own; this one is for all of them. */
const SHARED = process.env['BREAKFALL_TEST_TMPDIR'] ?? tmpdir()
const FOLDER = join(SHARED, `breakfall-postgres-${process.ppid}`)

async function sharedServer(): Promise<{ url: string; socket: Socket }> {
  let isOurs = startedHere()
  return eventually('the PostgreSQL of this run', async () => {
    const found = await connected()
    if (found === undefined && !isOurs && isStale()) {
      rmSync(FOLDER, { recursive: true, force: true })
      isOurs = startedHere()
    }
    return found
  })
}

/** True if no other test file has started it. */
function startedHere(): boolean {
  try {
    mkdirSync(FOLDER)
  } catch {
    return false // there is one, or it is starting
  }
  const program = fileURLToPath(new URL('./postgres-server.ts', import.meta.url))
  const child = spawn(process.execPath, [program, FOLDER], {
    detached: true,
    stdio: 'ignore',
    env: { ...process.env, TMPDIR: SHARED },
  })
  child.unref()
  writeFileSync(join(FOLDER, 'pid'), String(child.pid))
  return true
}

/** Left by a run that was killed. */
function isStale(): boolean {
  try {
    process.kill(Number(readFileSync(join(FOLDER, 'pid'), 'utf8')), 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

function connected(): Promise<{ url: string; socket: Socket } | undefined> {
  return new Promise((resolve) => {
    const socket = connect(join(FOLDER, 'socket'))
    socket.once('error', () => resolve(undefined)) // not yet
    socket.once('data', (line) => {
      socket.unref()
      resolve({ url: line.toString().trim(), socket })
    })
  })
}

async function once(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
