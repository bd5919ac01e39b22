/**
 * One connection to PostgreSQL, opened when it is needed and again after it broke. Statements on it run one after another.
 *
 * I1  A connection that breaks ends no process: `pg` emits an error also on clients that are idle.
 * I2  A statement without an answer in time costs the connection: what the server does with the statement is not known.
 * I3  Nothing is set for the connection: a pooler in transaction mode may sit in front of the server, and the next statement goes to
 *     another server connection.
 * I4  A statement that is planned once has a name made from its text: whatever has that name is that statement. A pooler before
 *     PgBouncer 1.21 does not know names; the server then refuses the statement before it runs, and no more names are used until the
 *     connection is opened again.
 */
import { hash } from 'node:crypto'
import { Socket } from 'node:net'
import pg from 'pg'
import type { Row } from '../sqlite-statements.ts'
import { isUnreplicated } from './pg-fault.ts'

export type PgScalar = string | number | boolean | null | Buffer
export type PgValue = PgScalar | readonly PgScalar[]

export type ConnectionOptions = {
  readonly url: string
  /** For an answer, and for the connection itself. */
  readonly waitMs: number
  readonly onNotification?: ((payload: string) => void) | undefined
  /** It was open and is not any more. */
  readonly onLost?: (() => void) | undefined
}

export class Connection {
  readonly #options: ConnectionOptions
  #open: Promise<Open> | undefined
  #isEnded = false

  constructor(options: ConnectionOptions) {
    this.#options = options
  }

  /** Rejects with the server's error, or with any other if the outcome is not known. */
  query(text: string, values: readonly PgValue[] = []): Promise<readonly Row[]> {
    return this.#ask({ text, values })
  }

  /** The same for statements that are sent all the time: the server plans them once. */
  async queryPlanned(text: string, values: readonly PgValue[]): Promise<readonly Row[]> {
    try {
      return await this.#ask({ text, values, name: nameOf(text) })
    } catch (error) {
      if (!isAboutNames(error)) throw error
      return this.#ask({ text, values }) // I4
    }
  }

  /** Several statements without values in one transaction. */
  async script(text: string): Promise<void> {
    await this.query(`BEGIN; ${text}; COMMIT`).catch(async (error: unknown) => {
      await this.query('ROLLBACK').catch(() => undefined) // a connection that broke has rolled back
      throw error
    })
  }

  async end(): Promise<void> {
    this.#isEnded = true
    const open = await this.#open?.catch(() => undefined) // it never opened
    if (open === undefined) return
    const ended = open.client.end().catch(() => undefined) // it may be broken already
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, GOODBYE_MS).unref())])
    open.socket.destroy()
  }

  /** Gives up on the connection now: a caller that waits for an answer gets an error. */
  break(): void {
    void this.#open?.then((open) => this.#drop(open)).catch(() => undefined) // it is not open
  }

  // ---- details, in the order they are used above ----

  async #ask(query: Query): Promise<readonly Row[]> {
    const open = await this.#opened()
    const answer = open.last.then(() => this.#askNext(open, query))
    open.last = answer.catch(ignore)
    return answer
  }

  /** The statement before has its answer. */
  async #askNext(open: Open, query: Query): Promise<readonly Row[]> {
    if (open.socket.destroyed) throw new Error('the connection is lost')
    open.isUnreplicated = false
    try {
      const { text, values, name } = query
      const sent = { text, values: [...values], ...(name !== undefined && open.hasNames && { name }) }
      const { rows } = await this.#inTime(open.client.query<Row>(sent))
      if (open.isUnreplicated) throw new Error('the commit may not be on the standby yet')
      return rows
    } catch (error) {
      if (isAboutNames(error)) open.hasNames = false
      if (!isAnswer(error)) this.#drop(open)
      throw error
    }
  }

  #opened(): Promise<Open> {
    if (this.#isEnded) return Promise.reject(new Error('the connection is closed'))
    this.#open ??= this.#connect().catch((error: unknown) => {
      this.#open = undefined
      throw error
    })
    return this.#open
  }

  async #connect(): Promise<Open> {
    const socket = new Socket()
    const client = new pg.Client({
      connectionString: this.#options.url,
      connectionTimeoutMillis: this.#options.waitMs,
      stream: () => socket,
      keepAlive: true,
      types: { getTypeParser: parserOf },
    })
    const open: Open = { client, socket, isUnreplicated: false, hasNames: true, last: Promise.resolve() }
    client.on('error', () => this.#drop(open)) // I1
    client.on('end', () => this.#drop(open))
    client.on('notice', (notice) => {
      if (isUnreplicated(notice)) open.isUnreplicated = true
    })
    client.on('notification', ({ payload = '' }) => this.#options.onNotification?.(payload))
    try {
      await client.connect()
      return open
    } catch (error) {
      socket.destroy()
      throw error
    }
  }

  async #inTime<T>(answer: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), this.#options.waitMs)
    })
    answer.catch(() => undefined) // whoever gave up on it does not hear of its end
    try {
      return await Promise.race([answer, late])
    } finally {
      clearTimeout(timer)
    }
  }

  #drop(open: Open): void {
    open.socket.destroy() // I2
    void this.#open?.then((current) => {
      if (current !== open) return
      this.#open = undefined
      if (!this.#isEnded) this.#options.onLost?.()
    }, ignore)
  }
}

// ---- details ----

type Open = {
  readonly client: pg.Client
  readonly socket: Socket
  isUnreplicated: boolean
  hasNames: boolean
  /** Until the last statement that was sent, or waits, has its answer. */
  last: Promise<unknown>
}

type Query = { readonly text: string; readonly values: readonly PgValue[]; readonly name?: string }

const GOODBYE_MS = 500

const ignore = (): void => undefined // whoever asked hears of it

/**
 * The server answered, so the connection is in order. Classes 57 and 08 end it. So does 25006: a read-only connection may stay
 * read-only, while a new one is not.
 */
const isAnswer = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && !/^(?:08|25006|57P)/.test(error.code ?? '08')

/** There is no such statement, or its name is taken. */
const isAboutNames = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && (error.code === '26000' || error.code === '42P05')

const names = new Map<string, string>()

/** I4. There are few such texts. */
function nameOf(text: string): string {
  const name = names.get(text) ?? `breakfall_${hash('sha256', text, 'hex').slice(0, 32)}`
  names.set(text, name)
  return name
}

const INT8 = 20
const TIMESTAMPTZ = 1184

/** Whole numbers as numbers: ours have 15 digits at most. Times in ISO 8601. */
function parserOf(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === INT8) return Number
  const parse: (value: string) => unknown = pg.types.getTypeParser(oid, format ?? 'text')
  if (oid !== TIMESTAMPTZ) return parse
  return (value) => {
    const time = parse(value)
    return time instanceof Date ? time.toISOString() : String(time)
  }
}
