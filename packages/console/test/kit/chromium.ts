/** Chromium for tests: one for a file, a context for a case. Everything that a page must never do is a failure at the end. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { newFolder, removeFolder } from '../../../../test/kit/folder.ts'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

const executablePath = process.env['BREAKFALL_CHROMIUM'] ?? PLACES.find((path) => existsSync(path))

/** Why the browser tests do not run here; false if they do. */
export const noChromium: string | false =
  executablePath === undefined ? 'Chromium is not installed; run: sudo apt-get install chromium' : false

const OPTIONS = {
  executablePath: executablePath ?? '',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
}

/** What Chromium leaves in its temporary folder goes with it. */
export async function launch(): Promise<Browser> {
  const folder = newFolder('chromium')
  const browser = await chromium.launch({ ...OPTIONS, env: { ...process.env, TMPDIR: folder } })
  browser.on('disconnected', () => removeFolder(folder))
  return browser
}

/** Like a person's browser: it keeps its history and everything else in this folder. */
export const launchWithProfile = (folder: string): Promise<BrowserContext> =>
  chromium.launchPersistentContext(folder, OPTIONS)

export type Watched = {
  readonly context: BrowserContext
  readonly page: Page
  readonly violations: string[]
  readonly foreign: string[]
}

/** `clockAt`: the page's clock starts there and moves as the test says, besides as usual. `onOpen`: before the page loads. */
export type PageOptions = BrowserContextOptions & {
  readonly clockAt?: number
  readonly onOpen?: (context: BrowserContext) => Promise<void>
}

/** A page that records errors, blocked content, dialogs and requests to anywhere else. */
export async function openPage(
  browser: Browser,
  address: string,
  { clockAt, onOpen, ...options }: PageOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  if (clockAt !== undefined) await context.clock.install({ time: clockAt })
  await onOpen?.(context)
  const violations: string[] = []
  const foreign: string[] = []
  const origin = new URL(address).origin
  const watch = (page: Page): void => {
    page.on('pageerror', (error) => violations.push(`error: ${error.message}`))
    page.on('console', (message) => {
      const text = message.text()
      if (/Content Security Policy|TrustedHTML|violates/i.test(text)) violations.push(text)
    })
    page.on('dialog', (dialog) => {
      violations.push(`dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('request', (request) => {
      const { protocol, origin: to } = new URL(request.url())
      if (protocol.startsWith('http') && to !== origin) foreign.push(request.url())
    })
    page.on('websocket', (socket) => {
      if (new URL(socket.url()).host !== new URL(origin).host) foreign.push(socket.url())
    })
  }
  context.on('page', watch)
  const page = await context.newPage()
  await page.goto(address)
  return { context, page, violations, foreign }
}
