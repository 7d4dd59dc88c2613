// JupyterLab runs this file as an extension: a saved widget that arrives late is drawn.
// ipywidgets looks for a widget's model every 100 ms and gives up after 2 s, without a last look.
// On a busy machine that pause outlasts the arrival, and the page says "model not found" of a
// model that is there. So whoever is told that looks once more.
(() => {
  const MANAGER = "@jupyter-widgets/jupyterlab-manager";
  let shared = {}; // package -> version -> { get }: the modules that extensions share

  function lookOnceMore(prototype) {
    const { get_model } = prototype;
    prototype.get_model = function (id) {
      return get_model.call(this, id).catch((problem) => {
        if (this.has_model(id)) return get_model.call(this, id);
        throw problem;
      });
    };
  }

  async function activate() {
    for (const { get } of Object.values(shared[MANAGER] ?? {})) {
      const { WidgetManager } = (await get())();
      lookOnceMore(WidgetManager.prototype);
    }
  }

  const plugin = { id: "late_model:plugin", autoStart: true, activate };
  const container = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => () => ({ __esModule: true, default: plugin }),
  };
  window._JUPYTERLAB = { ...window._JUPYTERLAB, late_model: container };
})();
